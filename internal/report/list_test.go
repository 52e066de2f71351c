package report

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A single step is written in the singular.
func TestStepsAreCounted(t *testing.T) {
	for last, want := range map[int]string{1: "1 of 1 step", 8: "1 of 8 steps"} {
		r := &run{steps: []step{{Step: 1}}}
		r.settings.MaxSteps = last
		require.Equal(t, want, ListedRun{run: r}.Progress())
	}
}

// For a warm-up, the list and the terminal show its loss.
func TestTheLossOfAWarmUpIsShown(t *testing.T) {
	a, b := unknownStep(), unknownStep()
	a.Step, a.Loss, b.Step, b.Loss, b.Accuracy = 1, 1.5, 2, 1.25, 0.75
	r := &run{steps: []step{a, b}}
	r.settings.Method = "dpo"
	lines := ListedRun{run: r}.Lines()
	require.Equal(t, []string{"loss", "1.25", "accuracy", "0.750"}, []string{lines[0].Name, lines[0].Last, lines[1].Name, lines[1].Last})
	require.Equal(t, "Loss; at the end loss 1.25", ListedRun{run: r}.Chart().Spoken)
	r.settings.Method = "grpo"
	require.Nil(t, ListedRun{run: r}.Chart(), "the loss of an RL run is not shown")
}

// The terminal shows what is known of a run, and the times of the last timed step.
func TestWhatATerminalShows(t *testing.T) {
	a, b := unknownStep(), unknownStep()
	a.Step, a.Reward, a.Correct, a.MeanLength, a.Entropy, a.Shift2 = 1, 0.5, 0.25, 40, 1.5, 0.125
	a.timing.Total, a.timing.Sample, a.timing.Score = 10, 4, 5
	b.Step = 2
	l := ListedRun{run: &run{steps: []step{a, b}}}
	var names []string
	for _, line := range l.Lines() {
		names = append(names, line.Name)
	}
	require.Equal(t, []string{"mean reward", "right", "tokens of a completion", "entropy", "kl of a step", "seconds of a step"}, names)
	require.Equal(t, []Phase{{"sampling", 4}, {"scores", 5}, {"training", 0}, {"the rest", 1}}, l.Phases())
}

// If every problem was left out, pass@k is unknown; an interval without spread is widened by the number of problems.
func TestEvaluationsOfFewProblems(t *testing.T) {
	e := evaluation{Problems: 4, LeftOut: 4, PassAtK: 0.5, Greedy: 1, CI: [2]float64{1, 1}}
	require.True(t, math.IsNaN(e.settle().PassAtK))
	e.LeftOut = 3
	require.Equal(t, 0.5, e.settle().PassAtK)
	require.InDelta(t, 0.51, e.settle().CI[0], 0.01)
	e.Problems = 0
	require.Equal(t, [2]float64{1, 1}, e.settle().CI, "the number of problems is unknown")
}
