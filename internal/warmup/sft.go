package warmup

import (
	"context"

	"github.com/seed-7879b91d/grpo/model"
)

// conversations are the methodData of sft, where all tokens count the same: −Σ w·log p, with w by the reduction.
type conversations struct{}

func (*conversations) begin(context.Context, *Trainer) error { return nil }

func (*conversations) datums(_ context.Context, t *Trainer, rows []int, _ *Metrics) (all []model.Datum, err error) {
	for _, i := range rows {
		for _, s := range t.set.rows[i].sides[0] {
			all = append(all, datum(s, 1))
		}
	}
	return all, nil
}

func (c *conversations) evaluate(ctx context.Context, t *Trainer, rows []int) (h HeldOut, err error) {
	datums, _ := c.datums(ctx, t, rows, nil)
	scores, err := t.policy.ScoreLearned(ctx, datums, 1)
	if err != nil {
		return h, err
	}
	total := 0.0
	for i, d := range datums {
		sum, n := counted(d, scores[i])
		total, h.Tokens = total-sum, h.Tokens+n
	}
	sequence := total / float64(len(datums))
	h.Rows, h.Loss, h.PerSequence = len(rows), total/float64(h.Tokens), &sequence
	return h, nil
}
