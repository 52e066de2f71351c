//go:build !unix

package cputime

import "time"

var began = time.Now()

// Used is the time since the process started: an upper bound for one thread.
func Used() time.Duration { return time.Since(began) }
