//go:build !unix

package cputime

import "time"

var began = time.Now()

// Used is the time since the process began: an upper bound of what one thread may have spent.
func Used() time.Duration { return time.Since(began) }
