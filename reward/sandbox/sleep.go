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

// sleepLeft is how much longer a test may sleep that began this long ago. Time in which it was ready to
// run but others had the processor is not charged to it, nor is the time before its process was made or
// after it ended. The error says that the machine gives it no processor.
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
