//go:build unix

// Package cputime tells what this process has spent: tests that bound speed measure that, for the time on a wall clock
// is also that of everybody else on the machine.
package cputime

import (
	"syscall"
	"time"
)

// Used is the processor time of all threads of this process so far.
func Used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no way to fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
