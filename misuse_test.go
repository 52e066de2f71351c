package grpo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/model"
)

// recovered takes a step in which something panics.
func recovered(t *testing.T, tr *Trainer, o StepOptions) {
	t.Helper()
	require.Panics(t, func() { _, _ = tr.Step(t.Context(), nil, o) })
}

// Where a function of the program's own panics and the program recovers, the step did not happen.
func TestAStepThatPanicsIsUndone(t *testing.T) {
	none := []string{"eval_every=-1"}
	tr, _ := setup{words: none}.open(t)
	want, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)

	panics := true
	fall := func() {
		if panics {
			panic("of the program's own")
		}
	}
	advantage := func(rewards []float64) []float64 { fall(); return MeanAdvantages(rewards) }
	groups := func(int, []Group) error { fall(); return nil }
	for _, own := range []Option{WithAdvantage(advantage), WithGroups(groups)} {
		panics = true
		tr, _ = setup{words: none, options: []Option{own}}.open(t)
		cursor := tr.Pool().Cursor()
		recovered(t, tr, StepOptions{})
		require.Equal(t, cursor, tr.Pool().Cursor(), "the problems are not lost")
		panics = false
		got, err := tr.Step(t.Context(), nil, StepOptions{})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// A policy that was left between two updates is of no step.
func TestAPolicyIsNotGoneOnWithAfterAPanic(t *testing.T) {
	policies := map[string]bool{}
	var tr *Trainer
	own := func(s *model.LossSequence) float64 {
		hash, err := tr.Policy().Hash()
		require.NoError(t, err)
		if policies[hash] = true; len(policies) == 2 {
			panic("at the second update")
		}
		return push(s)
	}
	tr, _ = setup{dir: t.TempDir(), words: []string{"eval_every=-1"}, options: []Option{WithLoss(own)}}.open(t)
	recovered(t, tr, StepOptions{Iterations: 2})
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "go on from the last checkpoint: step 1: a function of the program's own panicked")
	_, err = tr.Save(t.Context())
	require.ErrorContains(t, err, "half done")
}
