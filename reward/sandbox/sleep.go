package sandbox

import (
	"fmt"
	"time"
)

// threads is what the threads of a process are doing.
type threads struct {
	alive bool
	// runnable means that one of them runs, or would if it were given a processor.
	runnable bool
	// waited is how long one of them stood ready while others ran: the one that waited most. The kernel
	// adds a wait when it is over.
	waited time.Duration
}

// busyFactor is how many times its wall limit a run may last on a machine that is busy elsewhere
// before that is called a failure of the machine.
const busyFactor = 20

// sleepLeft is how long a test may still sleep that has lasted for some time. What it was ready to run
// while others had the processor is not its own time, and neither is that before its process was made or
// after it ended. The error is a machine that gives it no processor.
func (l Limits) sleepLeft(since time.Duration, t threads) (time.Duration, error) {
	awake := since - t.waited
	switch late := since > busyFactor*l.Wall; {
	case late && (!t.alive || 2*t.waited > since):
		return 0, fmt.Errorf("the machine is too busy: a run of at most %v is not over after %v, and got no processor for most of it",
			l.Wall, since)
	case late, t.alive && !t.runnable && awake >= l.Wall:
		return 0, nil
	}
	return max(l.Wall-awake, 5*time.Millisecond), nil
}
