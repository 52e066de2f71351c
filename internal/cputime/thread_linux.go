package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Thread is the processor time of the calling thread so far. To compare two values, lock the goroutine to its thread.
func Thread() time.Duration {
	var t unix.Timespec // getrusage would only be as recent as the last tick
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // cannot fail
	}
	return time.Duration(t.Nano())
}
