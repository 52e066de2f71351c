//go:build !race

// Package racing tells tests whether the race detector is on.
package racing

// Enabled reports whether it is.
const Enabled = false
