package report

import (
	"cmp"
	"slices"
)

// Line is a quantity of a run over its steps; NaN where it is unknown.
type Line struct {
	Name   string
	Values []float64
	Last   string // the latest value, formatted
	Share  bool   // from 0 to 1
}

// Lines are the curves that a terminal has room for.
func (l ListedRun) Lines() (curves []Line) {
	add := func(name string, share bool, format func(float64) string, of func(s *step) float64) {
		values := l.run.over(of)
		for _, v := range slices.Backward(values) {
			if v == v {
				curves = append(curves, Line{name, values, format(v), share})
				return
			}
		}
	}
	if l.run.warmup() { // the loss says nothing in GRPO
		add("loss", false, number, func(s *step) float64 { return s.Loss })
		add("accuracy", true, rate, func(s *step) float64 { return s.Accuracy })
		add("margin", false, number, func(s *step) float64 { return s.Margin })
	}
	add("mean reward", false, earned, func(s *step) float64 { return s.Reward })
	add("right", true, rate, func(s *step) float64 { return s.Correct })
	add("tokens of a completion", false, number, func(s *step) float64 { return s.MeanLength })
	add("entropy", false, number, func(s *step) float64 { return s.Entropy })
	add("kl of a step", false, number, func(s *step) float64 { return s.Shift2 })
	add("seconds of a step", false, number, func(s *step) float64 { return s.timing.Total })
	return curves
}

// Phase is a part of a step's time.
type Phase struct {
	Name    string
	Seconds float64
}

// Phases are the phases of the last timed step, and the remaining time.
func (l ListedRun) Phases() []Phase {
	for _, s := range slices.Backward(l.run.steps) {
		if t := s.timing; t.Total == t.Total {
			rest := t.Total - zeroIfNaN(t.Sample) - zeroIfNaN(t.Score) - zeroIfNaN(t.Train)
			return []Phase{{"sampling", zeroIfNaN(t.Sample)}, {"scores", zeroIfNaN(t.Score)}, {"training", zeroIfNaN(t.Train)},
				{"the rest", max(rest, 0)}}
		}
	}
	return nil
}

// Advice is the advice that holds, the latest first, with what to try.
func (l ListedRun) Advice() (lines []string) {
	now, _ := l.run.rules()
	for _, r := range now {
		lines = append(lines, r.Name+": "+r.Finding+"; try "+r.Try)
	}
	return lines
}

// RecordedCompletion is a recorded completion of the latest step.
type RecordedCompletion struct{ Problem, Verdict, Reward, Text string }

// Samples are the best and the worst completion of the group whose rewards differ most.
func (l ListedRun) Samples() (out []RecordedCompletion) {
	groups := l.run.groups()
	if len(groups) == 0 {
		return nil
	}
	for _, c := range groups[0].Completions {
		out = append(out, RecordedCompletion{groups[0].Problem, c.Verdict, cmp.Or(c.Reward, "none"), c.Text})
	}
	return out
}
