package advice

import (
	"errors"

	"github.com/seed-7879b91d/grpo/reward"
)

// RewardErrors is the rule of completions that could not be scored.
const RewardErrors = "reward errors"

// StepError ends a run of which too many completions of one step could not be scored.
type StepError struct{ Finding string }

func (e *StepError) Error() string { return e.Finding }

// Err is the end of a run by advice that is fatal.
func (a Advice) Err() error {
	finding := a.Finding + ": " + a.Try
	if a.Rule == RewardErrors {
		return &StepError{finding}
	}
	return errors.New(finding)
}

// Unscorable tells whether a run ends because programs cannot be judged, or completions not be scored: nothing is wrong with what it has
// learned.
func Unscorable(err error) bool {
	infra, file, step := (*reward.InfraError)(nil), (*reward.FileError)(nil), (*StepError)(nil)
	return errors.As(err, &infra) || errors.As(err, &file) || errors.As(err, &step)
}
