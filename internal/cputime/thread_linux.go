package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Thread is the processor time of the calling thread so far. Who compares two has locked the goroutine to its thread.
func Thread() time.Duration {
	var t unix.Timespec // what getrusage says of a thread is as old as the last tick of the kernel
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // it has no way to fail
	}
	return time.Duration(t.Nano())
}
