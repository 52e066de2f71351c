//go:build !linux

package cputime

import "time"

// Thread is the processor time of this process so far: an upper bound for the calling thread.
func Thread() time.Duration { return Used() }
