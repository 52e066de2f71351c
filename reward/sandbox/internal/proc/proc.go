// Package proc reads from /proc and the kernel's clocks what a process is doing. For a process that has ended all values are 0.
package proc

import "time"

// Threads is what the threads of a process are doing.
type Threads struct {
	Alive bool
	// Runnable means that at least one of them runs or waits for a processor.
	Runnable bool
	// Waited is how long the thread that waited longest was runnable without a processor. The kernel counts
	// a wait only when it is over.
	Waited time.Duration
}
