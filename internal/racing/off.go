//go:build !race

// Package racing tells tests whether the race detector is on.
package racing

// Detected reports whether it is.
const Detected = false
