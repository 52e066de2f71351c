// Package proc says what the kernel tells about a process from outside. A process that has ended has 0 of everything.
package proc

import "time"

// Threads is what the threads of a process are doing.
type Threads struct {
	Alive bool
	// Runnable means that one of them runs, or would if it were given a processor.
	Runnable bool
	// Waited is how long one of them stood ready while others ran: the one that waited most. The kernel
	// adds a wait when it is over.
	Waited time.Duration
}
