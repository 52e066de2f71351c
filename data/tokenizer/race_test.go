//go:build race

package tokenizer

// underRace says that the race detector slows everything down.
const underRace = true
