package grpo

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/model"
)

// reportNonFinite looks for the samples whose gradient is not finite and saves the batch. The step's
// update does not happen; weights and moments are as they were.
func (t *Trainer) reportNonFinite(ctx context.Context, datums []model.Datum, cause error) error {
	var culprits []int
	for i := range datums {
		t.Adam.ZeroGrad()
		if _, err := t.Policy.Accumulate(ctx, datums[i:i+1], t.Objective); err != nil {
			return err
		}
		if norm, err := t.Adam.GradNorm(); err != nil {
			return err
		} else if !finite(norm) {
			culprits = append(culprits, i)
		}
	}
	t.Adam.ZeroGrad()
	saved := ""
	if t.record != nil {
		path := filepath.Join(t.record.Dir, fmt.Sprintf("non_finite_step_%06d.json", t.step+1))
		text, err := json.Marshal(datums)
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(path, text); err != nil {
			return err
		}
		saved = "; saved to " + path
	}
	t.Watcher.Warn(fmt.Sprintf("step %d: no update: %v; samples %v of the batch are the cause%s", t.step+1, cause, culprits, saved))
	return nil
}

func finite(x float64) bool { return x-x == 0 }
