package reward

import (
	"fmt"
	"sync"
)

// InfraError ends a run whose sandbox fails too often to go on.
type InfraError struct {
	Failed, Of int    // the last Of completions
	Last       string // what went wrong the last time
}

func (e *InfraError) Error() string {
	return fmt.Sprintf(
		"the sandbox failed for %d of the last %d completions, at last with: %s; run 'grpo doctor' to see what is wrong with it",
		e.Failed, e.Of, e.Last)
}

// infraWindow is how many of the latest completions the limit is about.
const infraWindow = 256

// infraWatch stops grading when the sandbox failed for more than limit of the last infraWindow completions: a
// group with scores missing is compared with the wrong mean.
type infraWatch struct {
	limit int

	mu     sync.Mutex
	failed [infraWindow]bool
	seen   int64
	within int   // failures in the window
	all    int64 // failures ever
	err    error
}

// note counts a score for which the sandbox was needed.
func (w *infraWatch) note(s Score) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.seen % infraWindow
	w.seen++
	if w.failed[at] {
		w.within--
	}
	if w.failed[at] = s.Excluded == ExcludedInfra; !w.failed[at] {
		return w.err
	}
	w.within++
	w.all++
	if w.within > w.limit && w.err == nil {
		w.err = &InfraError{Failed: w.within, Of: int(min(w.seen, infraWindow)), Last: s.Note}
	}
	return w.err
}

// stopped is the error that ended grading, or nil.
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
