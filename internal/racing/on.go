//go:build race

// Package racing tells a test that the race detector watches it.
package racing

// Detected is whether it does.
const Detected = true
