package judging

import (
	"errors"

	"github.com/seed-7879b91d/grpo/reward"
)

// StepError ends a run of which too many completions of one step could not be scored.
type StepError struct{ Finding string }

func (e *StepError) Error() string { return e.Finding }

// Unscorable tells whether a run ends because programs cannot be judged, or completions not be scored: nothing is wrong with what it has
// learned.
func Unscorable(err error) bool {
	infra, file, step := (*reward.InfraError)(nil), (*reward.FileError)(nil), (*StepError)(nil)
	return errors.As(err, &infra) || errors.As(err, &file) || errors.As(err, &step)
}
