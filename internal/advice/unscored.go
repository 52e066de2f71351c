package advice

import "errors"

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
