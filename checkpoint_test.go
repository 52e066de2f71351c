package grpo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
)

// A checkpoint saved by an interrupt before the step was evaluated, or before the autopilot looked at it, is updated once that is done: a
// run resumed from it repeats neither. Files that its process had no time to remove are removed.
func TestACheckpointIsOfTheWholeStep(t *testing.T) {
	s := setup{dir: t.TempDir(), words: withPilot("learning_rate=0.0001", "max_steps=5", "save_every=1", "keep_last=0", "eval_every=1")}
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
	require.Equal(t, 3, tr.pilot.FirstUndecided())
	require.NoError(t, tr.save())
	require.Equal(t, 3, saved().Pilot.FirstUndecided())

	require.DirExists(t, checkpoint(s.dir, 1))
	tr.cfg.KeepLast, tr.cfg.KeepBest, tr.pilot.Anchor = 1, 0, 2
	require.NoError(t, tr.save())
	require.NoDirExists(t, checkpoint(s.dir, 1))
}

// The state of the run in a checkpoint is restored; in a fork also where the fork began, which may use another seed.
func TestAForkIsResumedAsOne(t *testing.T) {
	race.SkipCovered(t)
	parent := setup{dir: t.TempDir(), words: []string{"max_steps=3", "save_every=3"}}
	tr, _ := parent.open(t)
	run(t, tr)
	s := setup{dir: filepath.Join(t.TempDir(), "child"), words: []string{"init_from=" + parent.dir, "max_steps=6", "seed=5", "save_every=1"}}
	tr, l := s.open(t)
	require.NoError(t, tr.begin(t.Context()))
	require.NoError(t, tr.evaluateIfDue(t.Context()))
	require.Len(t, l.evals, 1, "also at its beginning, which is no multiple of eval_every")
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

// A checkpoint whose problems are dealt with another seed than its own is not the beginning of a fork, whatever the fork's seed.
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

// Naming a run's last checkpoint is like naming the run: all of its steps are done.
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

// If a run's record of its settings is lost, the order of summation is taken from the checkpoint.
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
