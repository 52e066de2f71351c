package reward

import (
	"fmt"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// InfraError ends a run whose sandbox fails too often.
type InfraError struct {
	Failed, Of int    // the last Of completions
	Last       string // what went wrong the last time
}

func (e *InfraError) Error() string {
	return fmt.Sprintf(
		"the sandbox failed for %d of the last %d completions, most recently: %s; run 'grpo doctor' to see what is wrong with it",
		e.Failed, e.Of, e.Last)
}

// infraWindow is the number of latest completions over which failures are counted.
const infraWindow = 256

// FileError ends a run whose reward file, or judge model, fails too often.
type FileError struct {
	Failed, Of, Limit int
	Last              string
	Judge             bool // the model of judge_url fails, not the reward file
}

func (e *FileError) Error() string {
	if e.Judge {
		return fmt.Sprintf("the judge gave no score to %d of the last %d completions, most recently: %s; fix it, or set infra_threshold "+
			"above %d to tolerate that many", e.Failed, e.Of, e.Last, e.Limit)
	}
	return fmt.Sprintf("the reward file failed on %d of the last %d completions, most recently: %s; fix it and resume with "+
		"allow_change=reward_file, or set infra_threshold above %d to tolerate that many", e.Failed, e.Of, e.Last, e.Limit)
}

// infraWatch stops grading when the sandbox, the reward file or the judge model failed for more than limit of the last
// infraWindow completions: in groups with missing scores the mean reward, the baseline, is wrong.
type infraWatch struct {
	limit int
	file  bool // watches the reward file
	judge bool // watches the model of judge_url

	mu     sync.Mutex
	failed [infraWindow]bool
	seen   int64
	within int   // failures in the window
	all    int64 // failures ever
	err    error
}

// note counts a completion, and whether it failed. It returns the error that stops grading, once there is one.
func (w *infraWatch) note(failed bool, why string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.seen % infraWindow
	w.seen++
	if w.failed[at] {
		w.within--
	}
	if w.failed[at] = failed; !failed {
		return w.err
	}
	w.within++
	w.all++
	if w.within > w.limit && w.err == nil {
		of := int(min(w.seen, infraWindow))
		w.err = &InfraError{Failed: w.within, Of: of, Last: why}
		if w.file || w.judge {
			w.err = badinput.Errorf("%w", &FileError{Failed: w.within, Of: of, Limit: w.limit, Last: why, Judge: w.judge})
		}
	}
	return w.err
}

// stopped is the error that stopped grading, or nil.
func (w *infraWatch) stopped() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *infraWatch) total() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}
