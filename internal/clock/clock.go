// Package clock measures what a process takes: time and memory.
package clock

import (
	"runtime"
	"syscall"
	"time"
)

// Watch measures phases, one after the other.
type Watch struct{ began, last time.Time }

// Start starts a watch.
func Start() *Watch {
	now := time.Now()
	return &Watch{now, now}
}

// Lap is the time since the last lap, in seconds.
func (w *Watch) Lap() float64 {
	now := time.Now()
	d := now.Sub(w.last)
	w.last = now
	return d.Seconds()
}

// Total is the time since the start, in seconds.
func (w *Watch) Total() float64 { return time.Since(w.began).Seconds() }

// PeakMemory is the most memory that the process had, in GB.
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
