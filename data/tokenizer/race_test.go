//go:build race

package tokenizer

// underRace reports that the race detector is on, which slows everything down.
const underRace = true
