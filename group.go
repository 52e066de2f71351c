package grpo

import (
	"math"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Group is the completions of one prompt with what they earned.
type Group struct {
	Problem    data.Problem
	Prompt     []int32
	Rollouts   []sampler.Rollout // [G]
	Texts      []string          // [G] of the rollouts
	Scores     []reward.Score    // [G]
	Advantages []float64         // [G]; zero where the score is left out
}

// AdvantageKind is how rewards of a group become advantages.
type AdvantageKind string

const (
	MeanAdvantage AdvantageKind = "mean" // R − mean(R)
	StdAdvantage  AdvantageKind = "std"  // the same, divided by the standard deviation
)

// negligible is an advantage that teaches nothing.
const negligible = 1e-8

// setAdvantages compares the completions of the group with each other. What was left out takes no
// part in the mean.
func (g *Group) setAdvantages(kind AdvantageKind) {
	g.Advantages = make([]float64, len(g.Scores))
	sum, n := 0.0, 0
	for _, s := range g.Scores {
		if s.Excluded == "" {
			sum += s.Reward
			n++
		}
	}
	if n == 0 {
		return
	}
	mean, squares := sum/float64(n), 0.0
	for i, s := range g.Scores {
		if s.Excluded == "" {
			g.Advantages[i] = s.Reward - mean
			squares += g.Advantages[i] * g.Advantages[i]
		}
	}
	if kind == StdAdvantage && !g.Degenerate() {
		std := math.Sqrt(squares / float64(n))
		for i := range g.Advantages {
			g.Advantages[i] /= std
		}
	}
}

// Degenerate reports whether the group agrees with itself: it teaches nothing.
func (g *Group) Degenerate() bool {
	for _, a := range g.Advantages {
		if math.Abs(a) >= negligible {
			return false
		}
	}
	return true
}

// Datums are the completions to learn from. The prompt is read but teaches nothing.
func (g *Group) Datums() []model.Datum {
	var datums []model.Datum
	for i, r := range g.Rollouts {
		if g.Scores[i].Excluded != "" {
			continue
		}
		tokens := append(append(make([]int32, 0, len(g.Prompt)+len(r.Tokens)), g.Prompt...), r.Tokens...)
		logprobs := append(make([]float32, len(g.Prompt)-1, len(tokens)-1), r.LogProbs...)
		datums = append(datums, model.NewDatum(tokens, len(g.Prompt), logprobs, float32(g.Advantages[i])))
	}
	return datums
}

// counts are what metrics want to know of a group.
func (g *Group) counts() (scored, correct int) {
	for _, s := range g.Scores {
		if s.Excluded == "" {
			scored++
			correct += int(s.Components.Correct)
		}
	}
	return scored, correct
}

// judged is counts for an evaluation: a completion that was cut off is judged, and wrong.
func (g *Group) judged() (judged, correct int) {
	for _, s := range g.Scores {
		if s.Excluded != reward.ExcludedInfra {
			judged++
			correct += int(s.Components.Correct)
		}
	}
	return judged, correct
}

// best is the best reward among the first k completions.
func (g *Group) best(k int) float64 {
	best := math.Inf(-1)
	for _, s := range g.Scores[:min(k, len(g.Scores))] {
		if s.Excluded == "" {
			best = max(best, s.Reward)
		}
	}
	if math.IsInf(best, -1) {
		return 0
	}
	return best
}
