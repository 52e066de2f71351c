package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// One step is one step, also where it is the only one of a run.
func TestStepsAreCounted(t *testing.T) {
	for last, want := range map[int]string{1: "1 of 1 step", 8: "1 of 8 steps"} {
		r := &run{steps: []step{{Step: 1}}}
		r.settings.MaxSteps = last
		require.Equal(t, want, Listed{run: r}.Progress())
	}
}

// Of a warm-up, the list and the terminal show what it lowers.
func TestTheLossOfAWarmUpIsShown(t *testing.T) {
	a, b := unknownStep(), unknownStep()
	a.Step, a.Loss, b.Step, b.Loss, b.Accuracy = 1, 1.5, 2, 1.25, 0.75
	r := &run{steps: []step{a, b}}
	r.settings.Method = "dpo"
	lines := Listed{run: r}.Lines()
	require.Equal(t, []string{"loss", "1.25", "accuracy", "0.750"}, []string{lines[0].Name, lines[0].Last, lines[1].Name, lines[1].Last})
	require.Equal(t, "Loss; at the end loss 1.25", Listed{run: r}.Chart().Spoken)
	r.settings.Method = "grpo"
	require.Nil(t, Listed{run: r}.Chart(), "a loss of drawn completions says nothing")
}
