package grpo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

func TestWhereARunBegins(t *testing.T) {
	own, other, empty := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{own, other} {
		tr, _ := setup{dir: dir, words: []string{"max_steps=2"}}.open(t)
		require.NoError(t, tr.Run(t.Context()))
	}
	saved, unsaved, link := checkpoint(own, 2), t.TempDir(), filepath.Join(t.TempDir(), "best")
	require.NoError(t, os.Symlink(saved, link))
	require.NoError(t, os.WriteFile(filepath.Join(unsaved, metricsFile), []byte("{}\n"), 0o644))
	for _, c := range []struct {
		resume, runDir, initFrom string
		from, in, err            string
		fork                     bool
	}{
		{resume: "auto", runDir: own, from: saved, in: own},
		{resume: "auto", runDir: empty, in: empty},
		{resume: "never", runDir: empty, in: empty},
		{resume: "never", runDir: own, err: "has a run with 1 checkpoint, and resume=never; choose another run_dir, or type resume=auto"},
		{resume: "never", runDir: unsaved, err: "has a run with 0 checkpoints, and resume=never; choose another run_dir"},
		{resume: "auto", runDir: unsaved, in: unsaved},
		{resume: own, from: saved, in: own},
		{resume: saved, from: saved, in: own},
		{resume: link, from: link, in: own},
		{resume: saved, runDir: own + "/", from: saved, in: own + "/"},
		{resume: own, runDir: empty, err: "leave run_dir out, or type init_from=" + own},
		{resume: empty, err: "no checkpoint to resume from"},
		{resume: "auto", runDir: empty, initFrom: own, from: saved, in: empty, fork: true},
		{resume: "auto", runDir: empty, initFrom: saved, from: saved, in: empty, fork: true},
		{resume: "auto", runDir: other, initFrom: own, from: checkpoint(other, 2), in: other},
		{resume: "auto", runDir: empty, initFrom: empty, err: "init_from=" + empty},
	} {
		cfg := &configs.Config{Resume: c.resume, RunDir: c.runDir, InitFrom: c.initFrom}
		err := provenance.ChooseRunDir(cfg)
		var o origin
		if err == nil {
			o, err = findOrigin(cfg, nobody{})
		}
		if c.err != "" {
			require.ErrorContains(t, err, c.err, "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.from, o.checkpoint, "%+v", c)
		require.Equal(t, c.fork, o.fork, "%+v", c)
		if c.runDir == "" {
			require.Equal(t, c.in, cfg.RunDir)
		}
	}
}

func TestACheckpointOutsideOfARunIsForkedOnly(t *testing.T) {
	dir, alone := t.TempDir(), filepath.Join(t.TempDir(), "copied")
	tr, _ := setup{dir: dir, words: []string{"max_steps=2"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.NoError(t, os.CopyFS(alone, os.DirFS(checkpoint(dir, 2))))
	cfg := &configs.Config{Resume: alone}
	require.ErrorContains(t, provenance.ChooseRunDir(cfg), "is a checkpoint outside a run; type init_from="+alone)

	t.Chdir(filepath.Join(dir, rundir.Checkpoints))
	cfg.Resume = rundir.Name(2)
	require.NoError(t, provenance.ChooseRunDir(cfg))
	require.Equal(t, "..", cfg.RunDir)
}

// If a log is shorter than the last checkpoint says, the run itself falls back to an earlier one; forks and evaluations do not.
func TestAShortLogHindersTheRunAlone(t *testing.T) {
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: []string{"max_steps=4", "eval_every=-1"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	log := filepath.Join(dir, rollouts.PlainFile)
	info, err := os.Stat(log)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(log, info.Size()-1))
	for key, step := range map[string]int{"run_dir": 2, "resume": 2, "init_from": 4, "run": 4} {
		o, err := namedOrigin(key, dir, nobody{})
		require.NoError(t, err)
		require.Equal(t, checkpoint(dir, step), o.checkpoint, key)
	}
}

// A run may continue with another seed if that is allowed; its problems are then dealt with that seed.
func TestAnotherSeedIsAllowed(t *testing.T) {
	s := setup{dir: t.TempDir(), words: []string{"max_steps=2", "eval_every=-1"}}
	tr, _ := s.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.NoError(t, tr.Close())
	s.words = []string{"max_steps=3", "eval_every=-1", "seed=7"}
	_, _, err := s.tryOpen(t)
	require.ErrorContains(t, err, "allow_change=seed")
	s.words = append(s.words, "allow_change=seed")
	tr, _ = s.open(t)
	require.EqualValues(t, 7, tr.pool.Cursor().Seed)
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, 3, tr.StepsDone())
}
