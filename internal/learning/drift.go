package learning

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/model"
)

// Drift is how far a step moved the policy: the KL divergence between the policy that sampled and the one after the step,
// estimated on about one batch of the sampled tokens. The statistics of the loss cannot show it in an on-policy step, as
// they are taken before the first update.
type Drift struct {
	KL1 float64 `json:"kl_pre_post_v1"` // mean of log q − log p
	KL2 float64 `json:"kl_pre_post_v2"` // mean of (log q − log p)²/2
}

// Drift measures on every k-th datum, so that they fill about one batch.
func (l *Learner) Drift(ctx context.Context, datums []model.Datum) (s Drift, err error) {
	rows := 0
	for _, d := range datums {
		rows += d.Rows()
	}
	var some []model.Datum
	var sequences [][]int32
	for i := 0; i < len(datums); i += max(1, rows/l.Policy.MaxRows) {
		d := datums[i]
		some = append(some, d)
		sequences = append(sequences, append(slices.Clone(d.Tokens), d.Targets[len(d.Targets)-1]))
	}
	scores, err := l.Policy.Score(ctx, sequences, l.Recipe.Objective.Temperature)
	if err != nil {
		return s, fmt.Errorf("score after the update: %w", err)
	}
	n := 0.0
	for i, d := range some {
		for k, counts := range d.Mask {
			if counts {
				diff := float64(d.OldLogProbs[k]) - float64(scores[i][k])
				s.KL1, s.KL2, n = s.KL1+diff, s.KL2+diff*diff/2, n+1
			}
		}
	}
	if n > 0 {
		s.KL1, s.KL2 = s.KL1/n, s.KL2/n
	}
	return s, nil
}
