package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/misuse"
)

// Run tests a backend against the contract: memory, wrong calls, every operation against the reference,
// gradients against finite differences of the reference, and equal bits for a row alone or packed, and for
// 1, 2, 3 and 8 threads. open makes a backend that uses that many threads; it is called once for each
// number. The tolerance is Chains.
func Run(t *testing.T, open func(threads int) kernels.Backend) { RunWithin(t, Chains, open) }

// RunWithin is Run for a backend with a tolerance of its own.
func RunWithin(t *testing.T, o Tolerance, open func(threads int) kernels.Backend) {
	numbers := []int{1, 2, 3, 8}
	if emulated {
		numbers = []int{1, 3}
	}
	newSuite(t, o, open, numbers...).run(t)
}

// On an emulated processor (GRPO_EMULATED=1) a suite runs with fewer numbers of threads and fewer rows, to save time. It still shows that
// the numbers of that processor's compiler are right, and the same as elsewhere.
var emulated = os.Getenv("GRPO_EMULATED") != ""

// RunDevice is RunWithin for a backend without a number of threads: it is opened twice. In operations on rows only one of `every` rows is
// also run alone, because on an emulated card a row takes as long as a block of them. Sequences are all run alone.
func RunDevice(t *testing.T, o Tolerance, every int, open func() kernels.Backend) {
	s := newSuite(t, o, func(int) kernels.Backend { return open() }, 1, 2)
	s.every, s.alike = every, true
	s.run(t)
}

// RunAdapters is the part of RunWithin that compares linears with an adapter with their separate products.
func RunAdapters(t *testing.T, open func(threads int) kernels.Backend) {
	testLowRank(t, newSuite(t, Chains, open, 2).machines[0])
}

// RunProducts is the part of RunWithin that depends on the order of sums in products with bf16, for a backend whose other
// order has passed all of RunWithin.
func RunProducts(t *testing.T, o Tolerance, open func(threads int) kernels.Backend) {
	s := newSuite(t, o, open, 1, 2)
	m := s.machines[1]
	t.Run("sums are added once", func(t *testing.T) { testAddedOnce(t, m) })
	t.Run("targets nobody asks for", func(t *testing.T) { testNoTarget(t, m) })
	t.Run("later rows change nothing", func(t *testing.T) { testCausal(t, m) })
	t.Run("what is no number stays behind", func(t *testing.T) { testNoNumber(t, m) })
	t.Run("keys and values are rounded", func(t *testing.T) { testRoundedAttention(t, m) })
	t.Run("paged attention is attention", func(t *testing.T) { testPaged(t, s.each(), kernels.BF16) })
	t.Run("a drawn token's log-probability", func(t *testing.T) { testDrawnLogProbs(t, s) })
	t.Run("quantised matrices", func(t *testing.T) { testQuantised(t, m) })
	t.Run("products in whole numbers", func(t *testing.T) { testWhole(t, s.machines) })
	t.Run("linears with an adapter", func(t *testing.T) { testLowRank(t, m) })
	of := regexp.MustCompile("^(Linear|LogProb|Attention.* bf16)")
	for _, c := range rowCases(o) {
		if of.MatchString(strings.ReplaceAll(c.name, "/", " ")) {
			t.Run(c.name, func(t *testing.T) { s.testRows(t, c) })
		}
	}
	for _, c := range sumCases(o) {
		if of.MatchString(c.name) {
			t.Run(c.name, func(t *testing.T) { s.testSums(t, c) })
		}
	}
}

// newSuite opens the backend with each number of threads, until the test ends.
func newSuite(t *testing.T, o Tolerance, open func(threads int) kernels.Backend, numbers ...int) suite {
	d := new(drawn)
	s := suite{tolerance: o, every: 1, reference: newMachine(NewReference(), d)}
	for _, threads := range numbers {
		m := newMachine(open(threads), d)
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Errorf("%s: close: %v", m.Name(), err)
			}
			misuse.Refused(t, "kernels: Sync: the backend is closed", func() { _ = m.Sync() })
		})
		s.machines = append(s.machines, m)
	}
	return s
}

func (s suite) run(t *testing.T) {
	t.Run("one order", func(t *testing.T) {
		for _, m := range s.machines {
			if m.Order() == "" || m.Order() != s.machines[0].Order() {
				t.Errorf("%s names the order of its sums %q, and %s names it %q", m.Name(), m.Order(), s.machines[0].Name(),
					s.machines[0].Order())
			}
		}
	})
	t.Run("memory", func(t *testing.T) { testMemory(t, s.machines[1]) })
	t.Run("wrong calls", func(t *testing.T) { misuse.Test(t, s.machines[1].Backend) })
	t.Run("laws", func(t *testing.T) { testLaws(t, s.tolerance, s.machines[1]) })
	few := s.each()[:min(2, len(s.each()))]
	for _, m := range few {
		t.Run("compressed matrices of "+m.Name(), func(t *testing.T) { testCompress(t, m) })
		t.Run("quantised matrices of "+m.Name(), func(t *testing.T) { testQuantised(t, m) })
	}
	t.Run("products in whole numbers", func(t *testing.T) { testWhole(t, few) })
	t.Run("linears with an adapter", func(t *testing.T) { testLowRank(t, s.machines[1]) })
	t.Run("rows that wait in bf16", func(t *testing.T) { testNarrow(t, s.machines[0]) })
	t.Run("loss", func(t *testing.T) { testLoss(t, s) })
	t.Run("sampling", func(t *testing.T) { testSampling(t, s) })
	t.Run("sum of squares", func(t *testing.T) { testSumSquares(t, s) })
	t.Run("slopes", func(t *testing.T) { testSlopes(t, s) })
	for _, c := range rowCases(s.tolerance) {
		t.Run(c.name, func(t *testing.T) { s.testRows(t, c) })
	}
	for _, c := range sumCases(s.tolerance) {
		t.Run(c.name, func(t *testing.T) { s.testSums(t, c) })
	}
}

// suite is the backend under test, opened with several numbers of threads, and the reference.
type suite struct {
	tolerance Tolerance
	every     int  // one of this many rows is run alone
	alike     bool // the machines are equal: they have no number of threads
	reference *machine
	machines  []*machine
}

// each are the machines for long tests that concern each machine by itself: only one if the machines are alike.
func (s suite) each() []*machine {
	if emulated || s.alike {
		return s.machines[1:2]
	}
	return s.machines
}

// testRows checks an operation whose outputs belong to rows, or to the rows of whole sequences: each
// unit alone against the reference, then random packings against each unit alone.
func (s suite) testRows(t *testing.T, c opCase) {
	units := c.units
	want := once(c.name+" of rows", func() result { return s.reference.call(t, c, units) })
	every := s.every
	if slices.ContainsFunc(units, func(u []int) bool { return len(u) > 1 }) {
		every = 1 // each sequence ends at another position of a block
	}
	alone := make([]result, len(units))
	if every > 1 {
		alone = split(s.machines[0].call(t, c, units), units)
	}
	for u := 0; u < len(units); u += every {
		alone[u] = s.machines[0].call(t, c, units[u:u+1])
	}
	near(t, "alone", c.tolerance, want, join(alone))

	inOrder := make([]int, len(units))
	for u := range inOrder {
		inOrder[u] = u
	}
	random := rand.New(rand.NewPCG(seed(c.name), 1))
	for _, m := range s.machines {
		for _, packing := range append(packings(random, len(units)), inOrder) {
			got := m.call(t, c, pick(units, packing))
			equal(t, fmt.Sprintf("%s, packed as %v", m.Name(), packing), join(pick(alone, packing)), got)
			if t.Failed() {
				return
			}
		}
	}
	s.machines[0].call(t, c, nil) // a call without rows is allowed
}

// known caches the results of the reference, which several suites of a process need.
var known = map[string]any{}

func once[T any](name string, ask func() T) T {
	if _, asked := known[name]; !asked {
		known[name] = ask()
	}
	return known[name].(T)
}

// packings distributes n units over random batches of random sizes.
func packings(random *rand.Rand, n int) (batches [][]int) {
	for deck := random.Perm(n); len(deck) > 0; {
		size := 1 + random.IntN(len(deck))
		batches = append(batches, deck[:size])
		deck = deck[size:]
	}
	return batches
}

func pick[E any](all []E, which []int) (picked []E) {
	for _, i := range which {
		picked = append(picked, all[i])
	}
	return picked
}

// testSums checks an operation that sums over rows, for several numbers of rows: against the
// reference, and for equal bits on all machines and in repetitions.
func (s suite) testSums(t *testing.T, c opCase) {
	for _, rows := range []int{0, 1, 7, 33, len(c.units)} {
		units := c.units[:rows]
		want := once(fmt.Sprintf("%s of %d rows", c.name, rows), func() result { return s.reference.call(t, c, units) })
		first := s.machines[0].call(t, c, units)
		near(t, fmt.Sprintf("%d rows", rows), c.tolerance, want, first)
		for _, m := range s.machines {
			for range 2 {
				equal(t, fmt.Sprintf("%s, %d rows", m.Name(), rows), first, m.call(t, c, units))
			}
		}
	}
}
