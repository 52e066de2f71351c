//go:build !linux

package sampler

// freeMemory is what the machine could still give, in bytes; 0 if nobody knows.
func freeMemory() int64 { return 0 }
