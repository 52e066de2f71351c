package grpo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/reward"
)

// kinds are settings of runs that differ in what an interruption meets.
var kinds = map[string][]string{
	"plain":                          nil,
	"scores at the end, two updates": {"pipeline=off", "num_iterations=2"},
	"a step ahead":                   {"pipeline=full"},
	"refilled, ahead, evaluated each step": {
		"refill=true", "max_refills=2", "prompts_per_step=3", "pipeline=full", "eval_every=1"},
}

// A run that is interrupted at the beginning of any phase and resumed ends like an uninterrupted one. This tests some phases;
// GRPO_KILLS=20 tests each.
func TestResumedRunsAreEqualToTheByte(t *testing.T) {
	const again = 5
	for name, words := range kinds {
		t.Run(name, func(t *testing.T) {
			words = append(words, "max_steps=4")
			whole := setup{dir: t.TempDir(), words: words}
			tr, l := whole.open(t)
			phases := 0
			l.onPhase = func(string) { phases++ }
			require.NoError(t, tr.Run(t.Context()))
			want := files(t, whole.dir)

			for stop := 1; stop <= phases; stop += stride(t, 25) {
				interrupted := setup{dir: t.TempDir(), words: words}
				interrupted.runInPieces(t, stop, again)
				requireSame(t, want, files(t, interrupted.dir))
			}
		})
	}
}

// A step that was sampled ahead is one update off policy, which is counted.
func TestASampledAheadRunLearnsFromThePolicyBefore(t *testing.T) {
	tr, l := setup{words: []string{"max_steps=6", "pipeline=full", "eval_every=-1"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Zero(t, l.metrics[0].Staleness)
	require.Zero(t, l.metrics[0].OnPolicy)
	require.Equal(t, l.metrics[0].Policy, l.metrics[1].Policy, "both are drawn before the first update")
	for i, m := range l.metrics[1:] {
		require.Equal(t, 1, m.Staleness)
		require.Positive(t, m.OnPolicy)
		if i > 0 {
			require.Equal(t, l.metrics[i-1].Trained, m.Policy)
		}
	}
	require.Nil(t, tr.ahead, "nothing is sampled ahead after the last step")
	kept, path := rolloutBatch{policy: "p", updates: 2, refilled: 3, epoch: 4}, filepath.Join(t.TempDir(), "ahead.json")
	tr.ahead = &kept
	require.NoError(t, tr.saveAhead(path))
	tr.ahead = nil
	again, err := tr.restoreAhead(path)
	require.NoError(t, err)
	again.rounds = nil // it has no rounds
	require.Equal(t, kept, *again)
	last := l.metrics[len(l.metrics)-1]
	require.Contains(t, last.Summary(Timing{}), "  1 update old, max|Δlogp| ")
	last.Staleness = 2 // as with num_iterations=2
	require.Contains(t, last.Summary(Timing{}), "  2 updates old, max|Δlogp| ")

	tr, l = setup{words: []string{"max_steps=3", "eval_every=-1"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	for i, m := range l.metrics[1:] {
		require.Zero(t, m.Staleness)
		require.Equal(t, l.metrics[i].Trained, m.Policy)
	}
}

// An interrupt does not wait for the scores of a step sampled ahead: they are requested again.
func TestAnInterruptDoesNotWaitForScores(t *testing.T) {
	words := []string{"max_steps=3", "pipeline=full", "eval_every=-1"}
	whole := setup{dir: t.TempDir(), words: words}
	tr, _ := whole.open(t)
	require.NoError(t, tr.Run(t.Context()))

	drawn, err := rollouts.Read(whole.dir, 1, 1)
	require.NoError(t, err)
	first := map[string]bool{}
	for _, group := range drawn.Groups[1] {
		first[group[0].Problem] = true
	}
	var waiting atomic.Int32
	patient := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		if !first[c.Problem.ID] { // a completion of a later step, which does not end before it is told to
			waiting.Add(1)
			defer waiting.Add(-1)
			<-ctx.Done()
			return reward.Score{}, ctx.Err()
		}
		return vowels(ctx, c)
	}
	interrupted := setup{dir: t.TempDir(), words: words, options: []Option{WithGrader(reward.GraderFunc(patient))}}
	tr, l := interrupted.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	l.onStep = func(Metrics) { cancel() }
	require.ErrorIs(t, tr.Run(ctx), context.Canceled)
	require.NotNil(t, tr.ahead)
	require.NoError(t, tr.Close())
	require.Zero(t, waiting.Load())

	tr, _ = setup{dir: interrupted.dir, words: words}.open(t)
	require.Equal(t, 1, tr.StepsDone())
	require.NoError(t, tr.Run(t.Context()))
	requireSame(t, files(t, whole.dir), files(t, interrupted.dir))
}

func TestGoingOnFromAnEarlierCheckpointSetsTheLaterAside(t *testing.T) {
	race.SkipCovered(t)
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: []string{"max_steps=6"}}.open(t)
	run(t, tr)
	want := files(t, dir)

	_, _, err := setup{dir: dir, words: []string{"max_steps=2", "resume=" + checkpoint(dir, 2)}}.tryOpen(t)
	require.ErrorContains(t, err, "has 2 steps already; type a larger number", "no step is left to train, and later lines would be set aside")
	tr, _ = setup{dir: dir, words: []string{"max_steps=6", "resume=" + checkpoint(dir, 2)}}.open(t)
	require.Equal(t, 2, tr.StepsDone())
	left, err := rundir.List(dir)
	require.NoError(t, err)
	require.Len(t, left, 3, "nothing is changed before the first step")
	require.NoError(t, tr.begin(t.Context()))
	left, err = rundir.List(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	aside, err := filepath.Glob(filepath.Join(dir, rundir.Checkpoints, rundir.RolledBackDir, "*", "step_*"))
	require.NoError(t, err)
	require.Len(t, aside, 2)
	for _, name := range []string{metricsFile, rollouts.PlainFile} {
		end, err := os.ReadFile(filepath.Join(filepath.Dir(aside[0]), name))
		require.NoError(t, err)
		now, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want[name], string(now)+string(end), "nothing of %s is lost", name)
	}
	require.NoError(t, tr.Run(t.Context()))
	requireSame(t, want, files(t, dir))
}

// A damaged checkpoint is reported by name, the one before is used, and the damaged one is replaced when its step is reached again.
func TestADamagedCheckpointIsReplaced(t *testing.T) {
	race.SkipCovered(t)
	s := setup{dir: t.TempDir(), words: []string{"max_steps=4"}}
	tr, _ := s.open(t)
	run(t, tr)
	want := files(t, s.dir)
	path := filepath.Join(checkpoint(s.dir, 4), momentsFile)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[len(text)-1] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o644))
	tr, l := s.open(t)
	require.Len(t, l.warnings, 1)
	require.Contains(t, l.warnings[0], "step_000004: optimizer.safetensors is damaged")
	require.Equal(t, 2, tr.StepsDone())
	run(t, tr)
	requireSame(t, want, files(t, s.dir))
	log, err := os.ReadFile(filepath.Join(s.dir, logFile))
	require.NoError(t, err)
	require.Contains(t, string(log), "optimizer.safetensors is damaged", "also messages from before the log was opened")

	for _, c := range []int{2, 4} {
		require.NoError(t, os.Remove(filepath.Join(checkpoint(s.dir, c), momentsFile)))
	}
	_, _, err = s.tryOpen(t)
	require.ErrorContains(t, err, "step_000004")
	require.ErrorContains(t, err, "step_000002")
	require.ErrorContains(t, err, "no checkpoint to resume from")
}

// If a log is shorter than a checkpoint says, it is reported by name, and an earlier checkpoint that fits is used.
func TestAShortLogFallsBackToACheckpointThatFits(t *testing.T) {
	race.SkipCovered(t)
	s := setup{dir: t.TempDir(), words: []string{"max_steps=4"}}
	tr, _ := s.open(t)
	run(t, tr)
	want := files(t, s.dir)
	log := filepath.Join(s.dir, rollouts.PlainFile)
	require.NoError(t, os.Truncate(log, int64(len(want[rollouts.PlainFile])-1)))
	named := setup{dir: s.dir, words: []string{"max_steps=4", "resume=" + checkpoint(s.dir, 4)}}
	_, _, err := named.tryOpen(t)
	require.ErrorContains(t, err, "rollouts.jsonl has ")
	tr, l := s.open(t)
	require.Equal(t, 2, tr.StepsDone())
	require.Len(t, l.warnings, 1)
	require.Contains(t, l.warnings[0], "checkpoint "+checkpoint(s.dir, 4)+": "+log+" has ")
	require.Contains(t, l.warnings[0], "using an older checkpoint, "+checkpoint(s.dir, 2))
	run(t, tr)
	require.Contains(t, l.warnings[1], "checkpoints and log lines after step 2 were moved to ")
	requireSame(t, want, files(t, s.dir))

	require.NoError(t, os.Remove(log))
	_, _, err = s.tryOpen(t)
	require.ErrorContains(t, err, "run_dir="+s.dir+": no checkpoint to resume from: logs are too short for 2 of them: checkpoint "+
		checkpoint(s.dir, 4)+": "+log+" has 0 bytes")
	require.Equal(t, 1, strings.Count(err.Error(), "somebody shortened it"), "the reason is given once for all checkpoints")
	require.NotContains(t, err.Error(), checkpoint(s.dir, 2))
	end := "; type run_dir=DIR init_from=" + checkpoint(s.dir, 4) + " to go on from it in another directory"
	require.True(t, strings.HasSuffix(err.Error(), end), err)

	require.NoError(t, os.Remove(filepath.Join(checkpoint(s.dir, 4), momentsFile)))
	_, _, err = s.tryOpen(t)
	require.ErrorContains(t, err, checkpoint(s.dir, 4))
	require.ErrorContains(t, err, "no checkpoint to resume from: checkpoint "+checkpoint(s.dir, 2)+": "+log)
	require.ErrorContains(t, err, "type run_dir=DIR init_from="+checkpoint(s.dir, 2)+" to go on from it")
}

// A damaged line of the metrics is reported by number, with what can be done.
func TestADamagedLineOfTheMetrics(t *testing.T) {
	s := setup{dir: t.TempDir(), words: []string{"max_steps=2"}}
	tr, _ := s.open(t)
	run(t, tr)
	log := filepath.Join(s.dir, metricsFile)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	text[len(text)-2] = 0
	require.NoError(t, os.WriteFile(log, text, 0o600))
	s.words = []string{"max_steps=4"}
	tr, _ = s.open(t)
	err = tr.Run(t.Context())
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "; fix that line, or bring the file back from a copy, or type run_dir=DIR init_from="+s.dir+" to continue")
}

// A run without a name gets a directory of its own, even if two begin in the same second; one that never began leaves nothing.
func TestRunsWithoutANameHaveTheirOwn(t *testing.T) {
	data := goldenModel(t)
	t.Chdir(t.TempDir())
	words := []string{"run_dir=", "max_steps=1", "eval_every=-1", "model=" + data}
	var dirs []string
	for range 2 {
		tr, _ := setup{dir: "any", words: words}.open(t)
		require.NotContains(t, dirs, tr.RunDir())
		dirs = append(dirs, tr.RunDir())
		require.DirExists(t, tr.RunDir())
		if len(dirs) == 2 {
			run(t, tr)
			continue
		}
		t.Cleanup(func() {
			require.NoDirExists(t, dirs[0])
			require.FileExists(t, filepath.Join(dirs[1], metricsFile))
		})
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
	}
}

// A run is locked from the moment it is opened.
func TestTwoProcessesDoNotShareARun(t *testing.T) {
	s := setup{dir: t.TempDir(), words: []string{"max_steps=1"}}
	tr, _ := s.open(t)
	_, _, err := s.tryOpen(t)
	require.ErrorContains(t, err, "another process is training in "+s.dir)
	run(t, tr)
	tr, _ = s.open(t)
	require.Equal(t, 1, tr.StepsDone())
}

// A run killed before its first checkpoint is set aside as a whole, settings included, when another one begins in its place. A removed
// manifest is written again.
func TestARunWithoutCheckpointsIsSetAsideAsAWhole(t *testing.T) {
	race.SkipCovered(t)
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: []string{"max_steps=6"}}.open(t)
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.NoError(t, tr.Close())
	before := map[string]string{}
	for _, name := range []string{provenance.ConfigFile, provenance.ManifestFile, metricsFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		before[name] = string(text)
	}

	tr, _ = setup{dir: dir, words: []string{"max_steps=2", "learning_rate=0.5"}}.open(t)
	require.NoError(t, tr.begin(t.Context()))
	for name, want := range before {
		kept, err := os.ReadFile(filepath.Join(dir, rundir.Checkpoints, rundir.RolledBackDir, "after_"+rundir.Name(0), name))
		require.NoError(t, err)
		require.Equal(t, want, string(kept), name)
	}
	run(t, tr)

	require.NoError(t, os.Remove(filepath.Join(dir, provenance.ManifestFile)))
	tr, _ = setup{dir: dir, words: []string{"max_steps=3", "learning_rate=0.5"}}.open(t)
	run(t, tr)
	var m provenance.Manifest
	require.NoError(t, rundir.ReadJSON(filepath.Join(dir, provenance.ManifestFile), &m))
	require.NotEmpty(t, m.Created)
	require.Len(t, m.Starts, 1)
}
