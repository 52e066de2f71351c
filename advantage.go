package grpo

import (
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/stats"
)

// AdvantageFunc turns the rewards of a group [G] into advantages [G].
type AdvantageFunc func(rewards []float64) []float64

// advantages are the settings that choose one.
var advantages = map[string]AdvantageFunc{"mean": MeanAdvantages, "std": StdAdvantages}

// MeanAdvantages are R − mean(R).
func MeanAdvantages(rewards []float64) []float64 {
	a := make([]float64, len(rewards))
	sum := 0.0
	for _, r := range rewards {
		sum += r
	}
	mean := sum / float64(len(rewards))
	for i, r := range rewards {
		a[i] = r - mean
	}
	return a
}

// StdAdvantages are MeanAdvantages divided by the standard deviation of the rewards, where they differ.
func StdAdvantages(rewards []float64) []float64 {
	a := MeanAdvantages(rewards)
	if stats.Negligible(a) {
		return a
	}
	if stats.Rounding(a, rewards) {
		return make([]float64, len(a))
	}
	squares := 0.0
	for _, x := range a {
		squares += x * x
	}
	std := math.Sqrt(squares / float64(len(a)))
	for i := range a {
		a[i] /= std
	}
	return a
}

// compare gives groups their advantages. A completion that was left out takes no part, and has 0.
func compare(groups []Group, f AdvantageFunc) ([]Group, error) {
	for i := range groups {
		g := &groups[i]
		var err error
		if g.Advantages, err = g.compare(f); err != nil {
			return nil, fmt.Errorf("problem %s: %w", g.Problem.ID, err)
		}
	}
	return groups, nil
}

func (g *Group) compare(f AdvantageFunc) ([]float64, error) {
	advantages := make([]float64, len(g.Rollouts))
	var rewards []float64
	var counted []int
	for i, r := range g.Rollouts {
		if r.Score.Excluded == "" {
			rewards, counted = append(rewards, r.Score.Reward), append(counted, i)
		}
	}
	if len(rewards) == 0 {
		return advantages, nil
	}
	a := f(rewards)
	if len(a) != len(rewards) {
		return nil, fmt.Errorf("%d advantages for %d rewards, expected one for each", len(a), len(rewards))
	}
	for k, i := range counted {
		if !finite(a[k]) {
			return nil, fmt.Errorf("an advantage of %v for a reward of %v, expected a number", a[k], rewards[k])
		}
		advantages[i] = a[k]
	}
	return advantages, nil
}
