package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/data"
)

// Summary is an overview of a set.
type Summary struct {
	Groups  []Group   `json:"groups"`
	Lengths Histogram `json:"statement_characters"`
	Tests   Histogram `json:"tests_per_problem"`
	// Refusals count the refused rows by reason, the most frequent first.
	Refusals []Refusals `json:"refused"`
}

// Group counts the problems of one kind from one source.
type Group struct {
	Source   string    `json:"source"`
	Kind     data.Kind `json:"kind"`
	Problems int       `json:"problems"`
	Tests    int       `json:"tests"`
}

// Refusals are the rows that were refused for one reason; First is the first of them.
type Refusals struct {
	Reason Reason  `json:"reason"`
	Rows   int     `json:"rows"`
	First  Refused `json:"first"`
}

// Histogram counts values in buckets: Counts[i] is the number of values in [Below[i-1], Below[i]); the last
// count is that of the values at or above all bounds.
type Histogram struct {
	Below  []int `json:"below"`
	Counts []int `json:"counts"`
}

func newHistogram(below ...int) Histogram {
	return Histogram{Below: below, Counts: make([]int, len(below)+1)}
}

func (h *Histogram) add(v int) {
	i, _ := slices.BinarySearch(h.Below, v+1)
	h.Counts[i]++
}

// Label is the name of bucket i, such as "500-999".
func (h *Histogram) Label(i int) string {
	from := 0
	if i > 0 {
		from = h.Below[i-1]
	}
	if i == len(h.Below) {
		return fmt.Sprintf("%d+", from)
	}
	return fmt.Sprintf("%d-%d", from, h.Below[i]-1)
}

// Summary computes the overview of the set.
func (s *Set) Summary() Summary {
	sum := Summary{
		Lengths: newHistogram(250, 500, 1000, 2000, 4000, 8000, 16000),
		Tests:   newHistogram(2, 5, 10, 20, 50, 100, 200),
	}
	type key struct {
		source string
		kind   data.Kind
	}
	groups := map[key]*Group{}
	for i := range s.problems {
		p := &s.problems[i]
		g := groups[key{p.Source, p.Kind}]
		if g == nil {
			g = &Group{Source: p.Source, Kind: p.Kind}
			groups[key{p.Source, p.Kind}] = g
		}
		g.Problems++
		g.Tests += p.NumTests
		sum.Lengths.add(utf8.RuneCountInString(p.Statement))
		sum.Tests.add(p.NumTests)
	}
	for _, g := range groups {
		sum.Groups = append(sum.Groups, *g)
	}
	slices.SortFunc(sum.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Kind, b.Kind))
	})
	sum.Refusals = countRefusals(s.manifest.Refused)
	return sum
}

func countRefusals(refused []Refused) []Refusals {
	reasons := map[Reason]*Refusals{}
	for _, r := range refused {
		if reasons[r.Reason] == nil {
			reasons[r.Reason] = &Refusals{Reason: r.Reason, First: r}
		}
		reasons[r.Reason].Rows++
	}
	list := []Refusals{}
	for _, r := range reasons {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Refusals) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}
