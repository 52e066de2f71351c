package grpo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/model"
)

// reportNonFinite warns of an update that was skipped because its gradient was not finite, naming the samples that cause
// it, and saves the batch for replay. The optimizer has left weights and moments unchanged.
func (t *Trainer) reportNonFinite(ctx context.Context, step int, u learning.Update, datums []model.Datum, groups []Group) error {
	if u.NonFinite == nil {
		return nil
	}
	culprits, err := t.learner.Culprits(ctx, datums)
	if err != nil {
		return err
	}
	because, at := []string{}, 0
	for g, i := range trainable(groups) { // in the order of the datums
		if slices.Contains(culprits, at) {
			because = append(because, fmt.Sprintf("sample %d of problem %s", g.Rollouts[i].Sample, g.Problem.ID))
		}
		at++
	}
	because = t.learner.Recipe.Blame(because)
	saved := ""
	if t.record != nil {
		path := t.record.File(fmt.Sprintf("non_finite_step_%06d.jsonl", step))
		readable, err := learning.Save(path, datums)
		if err != nil {
			return err
		}
		saved = "; saved to " + path + map[bool]string{true: ", which grpo replay --datums reads"}[readable]
	}
	none := map[bool]string{false: "no update", true: "no further update"}[u.Updated]
	t.watcher.Warn(fmt.Sprintf("step %d: %s: %v; the cause: %s%s", step, none, u.NonFinite, strings.Join(because, ", "), saved))
	return nil
}
