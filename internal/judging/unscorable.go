package judging

import (
	"errors"

	"github.com/seed-7879b91d/grpo/reward"
)

// StepError ends a run if too many completions of a step could not be scored.
type StepError struct{ Finding string }

func (e *StepError) Error() string { return e.Finding }

// Unscorable reports whether an error means that programs could not be judged or completions not scored: the policy is fine.
func Unscorable(err error) bool {
	infra, file, step := (*reward.InfraError)(nil), (*reward.FileError)(nil), (*StepError)(nil)
	return errors.As(err, &infra) || errors.As(err, &file) || errors.As(err, &step)
}
