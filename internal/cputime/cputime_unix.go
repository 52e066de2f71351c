//go:build unix

// Package cputime measures the processor time of this process. Tests that limit durations use it, as wall-clock time
// depends on what else the machine does.
package cputime

import (
	"syscall"
	"time"
)

// Used is the processor time of all threads of this process so far.
func Used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // cannot fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
