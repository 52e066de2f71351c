package stats

import "slices"

// Outcome is the result of an evaluation: how many problems were solved.
type Outcome struct {
	Step, Problems int
	Value          float64
	Judged         Judged // empty if the problems were not recorded
}

// SameProblems reports whether two evaluations were on the same problems, as far as is recorded. Some may be missing in either because the
// machine failed to judge them.
func (s Outcome) SameProblems(o Outcome) bool {
	a, b := s.Judged.Problems, o.Judged.Problems
	if s.Problems != o.Problems || len(a) == 0 || len(b) == 0 {
		return s.Problems == o.Problems
	}
	known := make(map[string]bool, len(a))
	for _, id := range a {
		known[id] = true
	}
	common := 0
	for _, id := range b {
		if known[id] {
			common++
		}
	}
	return 2*common > max(len(a), len(b))
}

// BySet groups evaluations by their sets of problems; the values are by step.
func BySet[E any](all []E, outcome func(*E) Outcome) []map[int]float64 {
	var first []Outcome
	var sets []map[int]float64
	for i := range all {
		o := outcome(&all[i])
		set := slices.IndexFunc(first, o.SameProblems)
		if set < 0 {
			set = len(first)
			first, sets = append(first, o), append(sets, map[int]float64{})
		}
		sets[set][o.Step] = o.Value
	}
	return sets
}
