//go:build !race

// Package race tells tests whether the race detector is on.
package race

// Enabled reports whether it is.
const Enabled = false
