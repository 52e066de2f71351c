package screen

import (
	"slices"
	"time"
)

// paceWindow is how many steps, and evaluations, the remaining time is estimated from.
const paceWindow = 15

// pace estimates the remaining time of a run.
type pace struct {
	limit int // the last step; below 1: unknown
	every int // steps between evaluations; below 1: none

	mark         time.Time // end of the last lap
	steps, evals []float64 // recent durations in seconds
}

// lap is the time since the last lap.
func (p *pace) lap(now time.Time) (seconds float64) {
	if !p.mark.IsZero() {
		seconds = now.Sub(p.mark).Seconds()
	}
	p.mark = now
	return seconds
}

// left is the remaining time after a step; known is false if it cannot be estimated. Evaluations have a median of their
// own, as one in ten steps would not affect the steps' median.
func (p *pace) left(step int) (seconds float64, known bool) {
	if p.limit < step || p.limit < 1 || len(p.steps) == 0 {
		return 0, false
	}
	evals := 0
	if p.every > 0 {
		evals = p.limit/p.every - step/p.every // those due after later steps
		if step%p.every == 0 {
			evals++
		}
		if p.limit%p.every != 0 {
			evals++ // there is always one at the end
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

// appendRecent appends, and drops the oldest beyond recent.
func appendRecent(all []float64, seconds float64) []float64 {
	all = append(all, seconds)
	return all[max(0, len(all)-paceWindow):]
}
