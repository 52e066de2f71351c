package sandbox

import (
	"fmt"
	"time"

	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/proc"
)

// busyFactor is how many times its wall limit a run may last on an overloaded machine before that counts
// as a failure of the machine.
const busyFactor = 20

// sleepLeft is how much longer a test that began this long ago may sleep. Time in which it was runnable
// but waited for a processor does not count, nor does time before its process was made or after it ended.
// If it has waited for too long, the error says that the machine is too busy.
func (l Limits) sleepLeft(since time.Duration, t proc.Threads) (time.Duration, error) {
	awake := since - t.Waited
	switch late := since > busyFactor*l.Wall; {
	case late && (!t.Alive || 2*t.Waited > since):
		return 0, fmt.Errorf("the machine is too busy: a program with a limit of %v has not ended after %v, and waited for a processor most "+
			"of that time",
			l.Wall, since)
	case late, t.Alive && !t.Runnable && awake >= l.Wall:
		return 0, nil
	}
	return max(l.Wall-awake, 5*time.Millisecond), nil
}
