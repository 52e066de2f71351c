package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/misuse"
)

// Run tests a backend against the contract: memory, wrong calls, every operation against the reference,
// gradients against finite differences of the reference, and equal bits for a row alone or packed, and for
// 1, 2, 3 and, among all forms, 8 threads. open makes a backend that uses that many threads; it is called once for each
// number. The tolerance is Chains.
func Run(t *testing.T, open func(threads int) kernels.Backend) { RunWithin(t, Chains, open) }

// RunWithin is Run for a backend with a tolerance of its own.
func RunWithin(t *testing.T, o Tolerance, open func(threads int) kernels.Backend) {
	numbers := []int{1, 2, 3, 8}[:testvariants.Limit(3, 4)]
	if emulated {
		numbers = []int{1, 3}
	}
	newSuite(t, o, open, numbers...).run(t)
}

// On an emulated processor (GRPO_EMULATED=1) a suite runs with fewer numbers of threads and fewer rows, to save time. That is enough to
// show that code compiled for that processor computes the same bits as elsewhere.
var emulated = os.Getenv("GRPO_EMULATED") != ""

// RunDevice is RunWithin for a backend without a number of threads: it is opened twice. In operations on rows only one of `every` rows is
// also run alone, because on an emulated card a row takes as long as a block of them. Sequences are all run alone.
func RunDevice(t *testing.T, o Tolerance, every int, open func() kernels.Backend) {
	s := newSuite(t, o, func(int) kernels.Backend { return open() }, 1, 2)
	s.every, s.identical = every, true
	s.run(t)
}

// RunAdapters is the part of RunWithin that compares linears with an adapter with their separate products.
func RunAdapters(t *testing.T, open func(threads int) kernels.Backend) {
	testLowRank(t, newSuite(t, Chains, open, 2).backends[0])
}

// RunProducts is the part of RunWithin that depends on the order of sums in products with bf16, for a backend whose other
// order has passed all of RunWithin.
func RunProducts(t *testing.T, o Tolerance, open func(threads int) kernels.Backend) {
	s := newSuite(t, o, open, 1, 2)
	m := s.backends[1]
	t.Run("sums are added once", func(t *testing.T) { testAddedOnce(t, m) })
	t.Run("rows without a target", func(t *testing.T) { testIgnoredTargets(t, m) })
	t.Run("later rows change nothing", func(t *testing.T) { testCausal(t, m) })
	t.Run("NaN and infinities do not spread", func(t *testing.T) { testNonfinite(t, m) })
	t.Run("keys and values are rounded", func(t *testing.T) { testRoundedAttention(t, m) })
	t.Run("paged attention is attention", func(t *testing.T) { testPaged(t, s.each(), kernels.BF16) })
	t.Run("a drawn token's log-probability", func(t *testing.T) { testDrawnLogProbs(t, s) })
	t.Run("quantised matrices", func(t *testing.T) { testQuantised(t, m) })
	t.Run("products in whole numbers", func(t *testing.T) { testWhole(t, s.backends) })
	t.Run("linears with an adapter", func(t *testing.T) { testLowRank(t, m) })
	products := regexp.MustCompile("^(Linear|LogProb|Attention.* bf16)")
	for _, c := range rowCases(o) {
		if products.MatchString(strings.ReplaceAll(c.name, "/", " ")) {
			t.Run(c.name, func(t *testing.T) { s.testRows(t, c) })
		}
	}
	for _, c := range sumCases(o) {
		if products.MatchString(c.name) {
			t.Run(c.name, func(t *testing.T) { s.testSums(t, c) })
		}
	}
}

// newSuite opens the backend with each number of threads, until the test ends.
func newSuite(t *testing.T, o Tolerance, open func(threads int) kernels.Backend, numbers ...int) suite {
	d := new(rowCache)
	s := suite{tolerance: o, every: 1, reference: newBackend(NewReference(), d)}
	for _, threads := range numbers {
		m := newBackend(open(threads), d)
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Errorf("%s: close: %v", m.Name(), err)
			}
			misuse.Refused(t, "kernels: Sync: the backend is closed", func() { _ = m.Sync() })
		})
		s.backends = append(s.backends, m)
	}
	return s
}

func (s suite) run(t *testing.T) {
	t.Run("one order", func(t *testing.T) {
		for _, m := range s.backends {
			if m.Order() == "" || m.Order() != s.backends[0].Order() {
				t.Errorf("%s names the order of its sums %q, and %s names it %q", m.Name(), m.Order(), s.backends[0].Name(),
					s.backends[0].Order())
			}
		}
	})
	t.Run("memory", func(t *testing.T) { testMemory(t, s.backends[1]) })
	t.Run("wrong calls", func(t *testing.T) { misuse.Test(t, s.backends[1].Backend) })
	t.Run("laws", func(t *testing.T) { testLaws(t, s.tolerance, s.backends[1]) })
	firstTwo := s.each()[:min(2, len(s.each()))]
	for _, m := range firstTwo {
		t.Run("compressed matrices of "+m.Name(), func(t *testing.T) { testCompress(t, m) })
		t.Run("quantised matrices of "+m.Name(), func(t *testing.T) { testQuantised(t, m) })
	}
	t.Run("products in whole numbers", func(t *testing.T) { testWhole(t, firstTwo) })
	t.Run("linears with an adapter", func(t *testing.T) { testLowRank(t, s.backends[1]) })
	t.Run("rows stored in bf16", func(t *testing.T) { testNarrow(t, s.backends[0]) })
	t.Run("loss", func(t *testing.T) { testLoss(t, s) })
	t.Run("sampling", func(t *testing.T) { testSampling(t, s) })
	t.Run("sum of squares", func(t *testing.T) { testSumSquares(t, s) })
	t.Run("gradients", func(t *testing.T) { testGradients(t, s) })
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
	identical bool // the backends are equal: they have no number of threads
	reference *backend
	backends  []*backend
}

// each are the backends for long tests that run on each by itself: only one if the backends are identical.
func (s suite) each() []*backend {
	if emulated || s.identical {
		return s.backends[1:2]
	}
	return s.backends
}

// testRows checks an operation whose outputs belong to rows, or to the rows of whole sequences: each
// unit alone against the reference, then random packings against each unit alone.
func (s suite) testRows(t *testing.T, c opCase) {
	units := c.units
	want := cached(c.name+" of rows", func() result { return s.reference.call(t, c, units) })
	every := s.every
	if slices.ContainsFunc(units, func(u []int) bool { return len(u) > 1 }) {
		every = 1 // each sequence ends at another position of a block
	}
	alone := make([]result, len(units))
	if every > 1 {
		alone = split(s.backends[0].call(t, c, units), units)
	}
	for u := 0; u < len(units); u += every {
		alone[u] = s.backends[0].call(t, c, units[u:u+1])
	}
	near(t, "alone", c.tolerance, want, join(alone))

	inOrder := make([]int, len(units))
	for u := range inOrder {
		inOrder[u] = u
	}
	random := rand.New(rand.NewPCG(seed(c.name), 1))
	packed := s.backends
	if s.identical {
		packed = packed[1:] // the first has run them alone
	}
	for _, m := range packed {
		for _, packing := range append(packings(random, len(units)), inOrder) {
			got := m.call(t, c, pick(units, packing))
			equal(t, fmt.Sprintf("%s, packed as %v", m.Name(), packing), join(pick(alone, packing)), got)
			if t.Failed() {
				return
			}
		}
	}
	s.backends[0].call(t, c, nil) // a call without rows is allowed
}

// referenceResults caches results of the slow reference, which several suites of a process need.
var referenceResults = map[string]any{}

func cached[T any](name string, compute func() T) T {
	if _, found := referenceResults[name]; !found {
		referenceResults[name] = compute()
	}
	return referenceResults[name].(T)
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
// reference, and for equal bits on all backends and in repetitions.
func (s suite) testSums(t *testing.T, c opCase) {
	for _, rows := range []int{0, 1, 7, 33, len(c.units)} {
		units := c.units[:rows]
		want := cached(fmt.Sprintf("%s of %d rows", c.name, rows), func() result { return s.reference.call(t, c, units) })
		first := s.backends[0].call(t, c, units)
		near(t, fmt.Sprintf("%d rows", rows), c.tolerance, want, first)
		for _, m := range s.backends {
			for range 2 {
				equal(t, fmt.Sprintf("%s, %d rows", m.Name(), rows), first, m.call(t, c, units))
			}
		}
	}
}
