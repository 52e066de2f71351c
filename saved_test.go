package grpo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
	"github.com/seed-7879b91d/grpo/reward"
)

// A checkpoint of where the first evaluation was made is compared with nothing, a later one with that; both know the model that they
// were made of. The format weighs there what it weighed in the run, where the autopilot had tried another weight.
func TestCheckpointsAreEvaluatedAsTheRunWas(t *testing.T) {
	s := setup{dir: t.TempDir(), words: piloted("learning_rate=0.0001", "max_steps=2", "save_every=1", "keep_last=0", "eval_every=1")}
	tr, _ := s.open(t)
	tr.pilot.Now[autopilot.Format] = 0.5
	require.NoError(t, tr.Run(t.Context()))
	steps, err := rundir.Steps(s.dir)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2}, steps)
	for _, step := range steps {
		saved, err := OpenSaved(s.dir, step, nil)
		require.NoError(t, err)
		e, err := saved.Evaluator(t.Context(), backend(t, 0), nil, WithGrader(reward.GraderFunc(vowels)))
		require.NoError(t, err)
		require.Equal(t, 0.5, e.Settings().FormatCoef)
		found, err := e.Evaluate(t.Context())
		require.NoError(t, err)
		require.Equal(t, step > 0, found.Change != nil)
		require.NoError(t, e.Close())
		state, err := snapshot.Read(saved.Dir)
		require.NoError(t, err)
		require.NotEmpty(t, state.Parts["model"])
	}
}
