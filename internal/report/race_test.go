//go:build race

package report

// underRace: the race detector makes everything ten times slower.
const underRace = true
