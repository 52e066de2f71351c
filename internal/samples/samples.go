// Package samples finds completions in the record of a run, however large it is: an index of its groups is made in one pass over
// rollouts.jsonl, packed or not, goes on with the file, and is kept beside it. What a page shows is read from where the index says.
//
// It reads files alone, by their documented keys. Lines that are no completions are named and passed over.
package samples

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// The files of a run directory that completions are in.
var files = [...]string{"rollouts.jsonl", "rollouts.jsonl" + jsonl.Packed}

const packed = 1 // the place of the packed one

// Group is where the completions of one prompt of a step are, and what came of them.
type Group struct {
	Step, Number int32
	Problem      int32 // which of the index's
	File         uint8
	Verdicts     Verdicts // that any completion has
	Samples      int32
	Right        int32
	Left         int32   // out of the group
	Tokens       int32   // of all completions
	Best, Worst  float32 // reward; NaN where none has one

	Frame int64 // where the frame begins in a packed file
	At    int64 // in the file, or what is in the frame
	Size  int64
}

// Mixed tells whether some were right and others wrong.
func (g Group) Mixed() bool { return g.Right > 0 && g.Right < g.Samples-g.Left }

// Solved tells whether any was right.
func (g Group) Solved() bool { return g.Right > 0 }

// Verdicts is a set of verdicts.
type Verdicts uint16

// Known are the verdicts in the order of their bits. The first stands for programs that were not run.
var Known = []string{"", "AC", "WA", "TLE", "MLE", "OLE", "RTE", "CE", "INFRA", "another"}

func verdict(name string) Verdicts {
	i := slices.Index(Known, name)
	if i < 0 {
		i = len(Known) - 1
	}
	return 1 << i
}

// Has tells whether the set has a verdict.
func (v Verdicts) Has(name string) bool { return v&verdict(name) != 0 }

// Names are the verdicts of the set.
func (v Verdicts) Names() (names []string) {
	for i, name := range Known {
		if v>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// Fault is a part of a file that is passed over.
type Fault struct {
	File string
	At   int64  // where it begins; in a packed file its frame
	Why  string // in plain words
}

// The most that is kept of a file, so that no file takes all memory: 2,000,000 groups are 160 MB.
const (
	mostGroups = 2_000_000
	mostName   = 200 // bytes of a problem's name
	mostFaults = 20
	mostLine   = 64 << 20
)

// View is what is known of a run's completions at a moment. It does not change.
type View struct {
	Groups   []Group // by step
	Problems []string
	Faults   []Fault // the first of them
	Faulty   int     // how many there are
	// Done of Total bytes are in Groups. They differ while the index is being made, or is behind a run that goes on.
	Done, Total int64
	Building    bool
	Err         error // why there is no more
	index       *Index
}

// Steps are the steps with completions, in their order, with the place of the first group of each.
func (v *View) Steps() (steps []int, first []int) {
	for i, g := range v.Groups {
		if i == 0 || g.Step != v.Groups[i-1].Step {
			steps, first = append(steps, int(g.Step)), append(first, i)
		}
	}
	return steps, first
}

// Step gives the groups of a step.
func (v *View) Step(step int) []Group {
	order := func(g Group, step int) int { return cmp.Compare(int(g.Step), step) }
	from, _ := slices.BinarySearchFunc(v.Groups, step, order)
	to, _ := slices.BinarySearchFunc(v.Groups, step+1, order)
	return v.Groups[from:to]
}

// Find gives a group of a step.
func (v *View) Find(step, number int) (Group, bool) {
	for _, g := range v.Step(step) {
		if int(g.Number) == number {
			return g, true
		}
	}
	return Group{}, false
}

// Name is the name of a group's problem.
func (v *View) Name(g Group) string { return v.Problems[g.Problem] }

var nan = float32(math.NaN())

// merged puts the groups of two files in the order of their steps. Of a run that did not change its setting one has none.
func merged(a, b []Group) []Group {
	switch {
	case len(b) == 0:
		return inOrder(a)
	case len(a) == 0:
		return inOrder(b)
	}
	all := make([]Group, 0, len(a)+len(b))
	return inOrder(append(append(all, a...), b...))
}

// inOrder sorts by step what is not, which takes a file that no run wrote.
func inOrder(groups []Group) []Group {
	order := func(a, b Group) int { return cmp.Compare(a.Step, b.Step) }
	if slices.IsSortedFunc(groups, order) {
		return groups
	}
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, order)
	return groups
}
