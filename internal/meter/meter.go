// Package meter measures durations and memory.
package meter

import (
	"runtime"
	"syscall"
	"time"
)

// Stopwatch measures consecutive phases.
type Stopwatch struct{ began, last time.Time }

// Start starts a stopwatch.
func Start() *Stopwatch {
	now := time.Now()
	return &Stopwatch{now, now}
}

// Lap is the time since the last lap, in seconds.
func (w *Stopwatch) Lap() float64 {
	now := time.Now()
	d := now.Sub(w.last)
	w.last = now
	return d.Seconds()
}

// Total is the time since the start, in seconds.
func (w *Stopwatch) Total() float64 { return time.Since(w.began).Seconds() }

// PeakMemory is the peak memory of the process, in GB.
func PeakMemory() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	unit := 1024.0
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(u.Maxrss) * unit / 1e9
}
