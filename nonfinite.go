package grpo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// reportNonFinite tells of an update that did not happen, because its gradient was not finite: which samples are the
// cause, and where the batch is saved. Weights and moments are as they were.
func (t *Trainer) reportNonFinite(ctx context.Context, step int, cause *optim.NonFiniteError, datums []model.Datum,
	groups []Group) error {
	if cause == nil {
		return nil
	}
	culprits, err := t.learner.Culprits(ctx, datums)
	if err != nil {
		return err
	}
	because, at := []string{}, 0
	for g, i := range taught(groups) { // in the order of the datums
		if slices.Contains(culprits, at) {
			because = append(because, fmt.Sprintf("sample %d of problem %s", g.Rollouts[i].Sample, g.Problem.ID))
		}
		at++
	}
	if len(because) == 0 {
		because = []string{"no completion by itself, but all of them together"}
	}
	saved := ""
	if t.record != nil {
		path := t.record.File(fmt.Sprintf("non_finite_step_%06d.json", step))
		if err := atomicfile.WriteJSON(path, datums); err != nil {
			return err
		}
		saved = "; saved to " + path
	}
	t.watcher.Warn(fmt.Sprintf("step %d: no update: %v; the cause: %s%s", step, cause, strings.Join(because, ", "), saved))
	return nil
}
