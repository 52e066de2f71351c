package suites

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/data/suite"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Results are the numbers of a card, without what the machine failed to judge.
type Results struct {
	Greedy    float64    `json:"greedy_pass@1"`
	CI        [2]float64 `json:"greedy_pass@1_ci"`
	Truncated float64    `json:"greedy_truncated"`
	NotJudged int        `json:"not_judged"`
	// PassAt are unbiased estimates from the samples, and SampledTruncated the share of samples that were cut off.
	PassAt           []PassAt `json:"pass@k,omitempty"`
	SampledTruncated *float64 `json:"sampled_truncated,omitempty"`
	// Groups are by difficulty, then by month, if the set has these.
	Groups []Group `json:"groups,omitempty"`
}

// PassAt is pass@k, with a 95 % interval over the problems that have at least k judged samples.
type PassAt struct {
	K        int        `json:"k"`
	Value    float64    `json:"value"`
	CI       [2]float64 `json:"ci"`
	Problems int        `json:"problems"`
}

func (p PassAt) String() string {
	return fmt.Sprintf("pass@%d %.3f [%.3f, %.3f]", p.K, p.Value, p.CI[0], p.CI[1])
}

// Group is a part of the problems.
type Group struct {
	By       string     `json:"by"` // difficulty or month
	Name     string     `json:"name"`
	Problems int        `json:"problems"`
	Greedy   float64    `json:"greedy_pass@1"`
	CI       [2]float64 `json:"greedy_pass@1_ci"`
	Sampled  *float64   `json:"sampled_pass@1,omitempty"`
}

func (g *Group) sampled() string {
	if g.Sampled == nil {
		return ""
	}
	return fmt.Sprintf(", %.3f sampled", *g.Sampled)
}

func passes(all []PassAt) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range all {
			if !yield(p.String()) {
				return
			}
		}
	}
}

// reportedK are the values of k that papers report.
var reportedK = []int{1, 5, 10, 25, 50, 100}

// problemResult are the results on one problem.
type problemResult struct {
	about         suite.About
	greedy        *float64 // nil: the machine failed
	judged, right int      // of the samples
}

func results(e *grpo.Evaluation, seed uint64) Results {
	var all []problemResult
	at := map[string]int{}
	for _, g := range e.GreedyTry.Groups {
		t := problemResult{about: suite.Of(&g.Problem)}
		if s := g.Rollouts[0].Score; s.Excluded != reward.ExcludedInfra {
			t.greedy = &s.Components.Correct
		}
		at[g.Problem.ID] = len(all)
		all = append(all, t)
	}
	for _, g := range e.SampledTry.Groups {
		t := &all[at[g.Problem.ID]]
		for _, r := range g.Rollouts {
			if r.Score.Excluded != reward.ExcludedInfra {
				t.judged, t.right = t.judged+1, t.right+int(r.Score.Components.Correct)
			}
		}
	}
	r := Results{Greedy: e.Greedy, CI: e.GreedyCI, Truncated: truncated(e.GreedyTry), NotJudged: e.NotJudged}
	if e.Sampled != nil {
		share := truncated(e.SampledTry)
		r.SampledTruncated = &share
		r.PassAt = passAt(all, e.K, seed)
	}
	r.Groups = append(groupBy(all, "difficulty", func(a suite.About) string { return a.Difficulty }, seed),
		groupBy(all, "month", suite.About.Month, seed)...)
	return r
}

func passAt(all []problemResult, k int, seed uint64) (out []PassAt) {
	most := 0
	for _, t := range all {
		most = max(most, t.judged)
	}
	ks := append(slices.Clone(reportedK), k)
	slices.Sort(ks)
	for _, k := range slices.Compact(ks) {
		var x []float64
		for _, t := range all {
			if k > 0 && k <= most && t.judged >= k {
				x = append(x, stats.PassAtK(t.judged, t.right, k))
			}
		}
		if len(x) > 0 {
			out = append(out, PassAt{K: k, Value: stats.Mean(x), CI: stats.Interval(x, seed), Problems: len(x)})
		}
	}
	return out
}

// groupBy groups the problems by a property, in its natural order: easy before hard, months by time.
func groupBy(all []problemResult, by string, of func(suite.About) string, seed uint64) (groups []Group) {
	names := map[string][]problemResult{}
	for _, t := range all {
		if name := of(t.about); name != "" {
			names[name] = append(names[name], t)
		}
	}
	order := []string{"easy", "medium", "hard"}
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		if i, j := slices.Index(order, a), slices.Index(order, b); i != j {
			return i - j
		}
		if a < b {
			return -1
		}
		return 1
	})
	for _, name := range sorted {
		var greedy, sampled []float64
		for _, t := range names[name] {
			if t.greedy != nil {
				greedy = append(greedy, *t.greedy)
			}
			if t.judged > 0 {
				sampled = append(sampled, stats.PassAtK(t.judged, t.right, 1))
			}
		}
		g := Group{By: by, Name: name, Problems: len(names[name]), Greedy: stats.Mean(greedy), CI: stats.Interval(greedy, seed)}
		if len(sampled) > 0 {
			mean := stats.Mean(sampled)
			g.Sampled = &mean
		}
		groups = append(groups, g)
	}
	return groups
}

// truncated is the share of completions that were cut off.
func truncated(try grpo.Attempt) float64 {
	cut, n := 0, 0
	for _, g := range try.Groups {
		for _, r := range g.Rollouts {
			if n++; r.Finish == sampler.Length {
				cut++
			}
		}
	}
	return float64(cut) / float64(max(n, 1))
}
