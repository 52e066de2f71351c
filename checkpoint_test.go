package grpo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/racing"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
)

// A checkpoint that is there already, as an interrupt left it before the step was evaluated or the autopilot looked at it, is one of
// after that once that is done: a run that goes on from it does neither again. And what its process had no time to remove is removed.
func TestACheckpointIsOfTheWholeStep(t *testing.T) {
	s := setup{dir: t.TempDir(), words: piloted("learning_rate=0.0001", "max_steps=5", "save_every=1", "keep_last=0", "eval_every=1")}
	tr, _ := s.open(t)
	for range 2 {
		_, err := tr.Step(t.Context(), nil, StepOptions{})
		require.NoError(t, err)
		require.NoError(t, tr.save())
	}
	saved := func() snapshot.State {
		state, err := snapshot.Read(checkpoint(s.dir, 2))
		require.NoError(t, err)
		at, err := tr.record.Lengths()
		require.NoError(t, err)
		require.Equal(t, at, state.Logs)
		return state
	}
	require.Zero(t, saved().Evaluated)
	require.NoError(t, tr.evaluateIfDue(t.Context()))
	require.NoError(t, tr.save())
	require.Equal(t, 3, saved().Evaluated)

	require.NoError(t, tr.steer(t.Context()))
	require.Equal(t, 3, tr.pilot.Decided())
	require.NoError(t, tr.save())
	require.Equal(t, 3, saved().Pilot.Decided())

	require.DirExists(t, checkpoint(s.dir, 1))
	tr.cfg.KeepLast, tr.cfg.KeepBest, tr.pilot.Anchor = 1, 0, 2
	require.NoError(t, tr.save())
	require.NoDirExists(t, checkpoint(s.dir, 1))
}

// What a checkpoint has of the run comes back with it: in a fork also where that began, which may draw with another seed.
func TestAForkIsResumedAsOne(t *testing.T) {
	racing.Again(t)
	parent := setup{dir: t.TempDir(), words: []string{"max_steps=3", "save_every=3"}}
	tr, _ := parent.open(t)
	run(t, tr)
	s := setup{dir: filepath.Join(t.TempDir(), "child"), words: []string{"init_from=" + parent.dir, "max_steps=6", "seed=5", "save_every=1"}}
	tr, l := s.open(t)
	require.NoError(t, tr.begin(t.Context()))
	require.NoError(t, tr.evaluateIfDue(t.Context()))
	require.Len(t, l.evals, 1, "where it begins, too, which is no multiple of eval_every")
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	_, err = tr.Save(t.Context())
	require.NoError(t, err)
	advisor, cursor := tr.advisor, tr.pool.Cursor()
	require.NotZero(t, advisor)
	require.EqualValues(t, 5, cursor.Seed)
	require.NoError(t, tr.Close())
	tr, _ = s.open(t)
	require.Equal(t, []int{4, 3}, []int{tr.step, tr.start})
	require.Equal(t, advisor, tr.advisor)
	require.Equal(t, cursor, tr.pool.Cursor())
}

// A checkpoint that deals its problems by another seed than its own is no fork's beginning, whatever seed the fork has.
func TestACheckpointOfTwoSeedsIsRefused(t *testing.T) {
	parent := setup{dir: t.TempDir(), words: []string{"max_steps=1", "eval_every=-1"}}
	tr, _ := parent.open(t)
	run(t, tr)
	state, err := snapshot.Read(checkpoint(parent.dir, 1))
	require.NoError(t, err)
	state.Cursor.Seed++
	text, err := rundir.Seal(state)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(checkpoint(parent.dir, 1), rundir.StateFile), text, 0o644))
	for _, seed := range []string{"seed=11", "seed=5"} {
		_, _, err := setup{words: []string{"init_from=" + parent.dir, seed}}.tryOpen(t)
		require.ErrorContains(t, err, "seed")
		require.True(t, badinput.Is(err), "%v", err)
	}
}

// A run whose last checkpoint is named has done all of its steps, as one has that is named itself.
func TestTheLastCheckpointMayBeNamed(t *testing.T) {
	s := setup{dir: t.TempDir(), words: []string{"max_steps=2", "eval_every=-1", "save_every=1"}}
	tr, _ := s.open(t)
	run(t, tr)
	s.words = append(s.words, "resume="+checkpoint(s.dir, 2))
	tr, l := s.open(t)
	require.Contains(t, tr.Origin(), "has done all of its 2 steps")
	run(t, tr)
	require.Empty(t, l.metrics)
}

// A run that lost what it said of its settings goes on in the order of sums that its checkpoint says.
func TestACheckpointKnowsItsOrder(t *testing.T) {
	for _, order := range []string{"serial", "tiles"} {
		s := setup{dir: t.TempDir(), words: []string{"max_steps=1", "eval_every=-1", "order=" + order}}
		tr, _ := s.open(t)
		run(t, tr)
		for _, name := range []string{provenance.ConfigFile, provenance.ManifestFile} {
			require.NoError(t, os.Remove(filepath.Join(s.dir, name)))
		}
		s.words[2] = "order=auto"
		tr, _ = s.open(t)
		require.Equal(t, order, tr.cfg.Order)
		require.NoError(t, tr.Close())
	}
}
