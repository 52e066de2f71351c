package grpo

import (
	"context"

	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/internal/recipe"
	"github.com/seed-7879b91d/grpo/model"
)

// AdvantageFunc turns the rewards of a group [G] into advantages [G]. It may write to rewards; what it returns is copied.
type AdvantageFunc func(rewards []float64) []float64

// MeanAdvantages are R − mean(R).
func MeanAdvantages(rewards []float64) []float64 { return objective.Mean(rewards) }

// StdAdvantages are MeanAdvantages divided by the standard deviation of the rewards, where they differ.
func StdAdvantages(rewards []float64) []float64 { return objective.Std(rewards) }

// compareLocked is compare with the backend locked. The unlock is deferred: the caller's AdvantageFunc may panic, and be recovered.
func (t *Trainer) compareLocked(ctx context.Context, groups []Group) ([]Group, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	return compare(ctx, groups, t.learner.Recipe, t.policy)
}

// compare computes the advantages of groups. An excluded completion takes no part in its group, and gets 0.
func compare(ctx context.Context, groups []Group, r *recipe.Recipe, reference recipe.Scorer) ([]Group, error) {
	samples, counted := make([]objective.Group, len(groups)), make([][]int, len(groups))
	for k, g := range groups {
		samples[k].Name = g.Problem.ID
		for i, s := range g.Rollouts {
			if s.Score.Excluded == "" {
				samples[k].Samples = append(samples[k].Samples, objective.Sample{Reward: s.Score.Reward, Tokens: s.drawn()})
				counted[k] = append(counted[k], i)
			}
		}
	}
	a, err := r.Advantages(ctx, reference, samples, func(k, i int) model.Datum { return groups[k].datum(counted[k][i]) })
	if err != nil {
		return nil, err
	}
	leftOut := 0
	for k := range groups {
		g := &groups[k]
		g.Advantages, g.positiveOnly = make([]float64, len(g.Rollouts)), r.PositiveOnly
		if a.Tokens != nil {
			g.tokens = make([][]float64, len(g.Rollouts))
		}
		for n, i := range counted[k] {
			g.Advantages[i] = a.Samples[k][n]
			if a.Tokens != nil {
				g.tokens[i] = a.Tokens[k][n]
			}
		}
		for i := range g.Rollouts {
			if g.hasSignal(i) && !g.keptBySign(i) {
				leftOut++
			}
		}
	}
	r.RecordLeftOut(leftOut)
	return groups, nil
}
