// Package samples finds completions in the record of a run of any size. It indexes the groups of rollouts.jsonl, packed or not, in
// one pass, follows the growing file, and can save the index beside it. Completions are then read from where the index says.
//
// It only reads files, by their documented keys. Lines that are no completions are listed and skipped.
package samples

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// The files of a run directory with completions.
var files = [...]string{"rollouts.jsonl", "rollouts.jsonl" + jsonl.PackedSuffix}

const packed = 1 // index of the packed one

// Group is where the completions of one prompt in a step are, with a summary.
type Group struct {
	Step, Number int32
	Problem      int32 // index into View.Problems
	File         uint8
	Verdicts     Verdicts // of all completions
	Samples      int32
	Right        int32
	Left         int32   // completions excluded from the group
	Tokens       int32   // of all completions
	Best, Worst  float32 // reward; NaN if none has one

	Frame int64 // offset of its frame in a packed file
	At    int64 // offset in the file, or in the unpacked frame
	Size  int64
}

// Mixed reports whether some completions were right and others wrong.
func (g Group) Mixed() bool { return g.Right > 0 && g.Right < g.Samples-g.Left }

// Solved reports whether any completion was right.
func (g Group) Solved() bool { return g.Right > 0 }

// Verdicts is a set of verdicts.
type Verdicts uint16

// KnownVerdicts are the verdicts in the order of their bits. The first stands for programs that were not run.
var KnownVerdicts = []string{"", "AC", "WA", "TLE", "MLE", "OLE", "RTE", "CE", "INFRA", "another"}

func verdict(name string) Verdicts {
	i := slices.Index(KnownVerdicts, name)
	if i < 0 {
		i = len(KnownVerdicts) - 1
	}
	return 1 << i
}

// Has tells whether the set has a verdict.
func (v Verdicts) Has(name string) bool { return v&verdict(name) != 0 }

// Names are the verdicts of the set.
func (v Verdicts) Names() (names []string) {
	for i, name := range KnownVerdicts {
		if v>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// Fault is a part of a file that was skipped.
type Fault struct {
	File string
	At   int64  // its offset; in a packed file that of its frame
	Why  string // for the user
}

// Limits on what is kept of a file, to bound the memory: 2,000,000 groups take 160 MB.
const (
	mostGroups = 2_000_000
	mostName   = 200 // bytes of a problem's name
	mostFaults = 20
	mostLine   = 64 << 20
)

// View is an immutable snapshot of the index.
type View struct {
	Groups   []Group // by step
	Problems []string
	Faults   []Fault // the first of them
	Faulty   int     // the number of all
	// Done of Total bytes are in Groups. They differ while the index is built, or behind the files.
	Done, Total int64
	Building    bool
	Err         error // why the rest cannot be read
	index       *Index
}

// Steps are the steps with completions, in order, and the index of the first group of each.
func (v *View) Steps() (steps []int, first []int) {
	for i, g := range v.Groups {
		if i == 0 || g.Step != v.Groups[i-1].Step {
			steps, first = append(steps, int(g.Step)), append(first, i)
		}
	}
	return steps, first
}

// Step returns the groups of a step.
func (v *View) Step(step int) []Group {
	order := func(g Group, step int) int { return cmp.Compare(int(g.Step), step) }
	from, _ := slices.BinarySearchFunc(v.Groups, step, order)
	to, _ := slices.BinarySearchFunc(v.Groups, step+1, order)
	return v.Groups[from:to]
}

// Find returns a group of a step by its number.
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

// merged merges the groups of two files in the order of steps. If the run never changed its setting, one file has none.
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

// inOrder sorts groups by step; those that a run writes are sorted already.
func inOrder(groups []Group) []Group {
	order := func(a, b Group) int { return cmp.Compare(a.Step, b.Step) }
	if slices.IsSortedFunc(groups, order) {
		return groups
	}
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, order)
	return groups
}
