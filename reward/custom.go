package reward

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// custom asks the user's compute_reward(completion, ground_truth) -> float, which its runner keeps
// loaded. What fails scores 0.0 and is counted, so that it can be shown: it is the file's fault or the
// completion's, and nobody but the author can tell.
type custom struct {
	runner Runner
	limits sandbox.Limits
	failed atomic.Int64
	last   atomic.Pointer[string]
}

func (c *custom) score(ctx context.Context, group, completion, groundTruth string) (reward float64, note string, err error) {
	value, note, err := call(ctx, c.runner, group, sandbox.Program{Call: "compute_reward"}, c.limits, completion, groundTruth)
	if err != nil {
		return 0, "", err
	}
	n, ok := asNumber(value)
	if note == "" && (!ok || math.IsInf(n.nearest(), 0)) {
		note = fmt.Sprintf("compute_reward returned %v, expected a finite number", value)
	}
	if note != "" {
		note = "reward file: " + note
		c.failed.Add(1)
		c.last.Store(&note)
		return 0, note, nil
	}
	return n.nearest(), "", nil
}
