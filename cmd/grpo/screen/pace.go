package screen

import (
	"slices"
	"time"
)

// recent is how many steps, and how many evaluations, the remaining time is judged by.
const recent = 15

// pace is how fast a run goes on.
type pace struct {
	limit int // its last step; below 1: nobody knows
	every int // steps between evaluations; below 1: none

	mark         time.Time // the end of what was timed last
	steps, evals []float64 // seconds
}

// lap is the time since the last.
func (p *pace) lap(now time.Time) (seconds float64) {
	if !p.mark.IsZero() {
		seconds = now.Sub(p.mark).Seconds()
	}
	p.mark = now
	return seconds
}

// left is how many seconds the run has left after a step; known tells whether that can be said. Evaluations count by
// their own median: one in ten steps would be no part of the steps'.
func (p *pace) left(step int) (seconds float64, known bool) {
	if p.limit < step || p.limit < 1 || len(p.steps) == 0 {
		return 0, false
	}
	evals := 0
	if p.every > 0 {
		evals = p.limit/p.every - step/p.every // those that are due after later steps
		if step%p.every == 0 {
			evals++
		}
		if p.limit%p.every != 0 {
			evals++ // at the end there is one in any case
		}
	}
	return float64(p.limit-step)*median(p.steps) + float64(evals)*median(p.evals), true
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// with adds to the recent ones.
func with(all []float64, seconds float64) []float64 {
	all = append(all, seconds)
	return all[max(0, len(all)-recent):]
}
