package grpo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/reward"
)

// withPilot are settings of a run whose learning rate is far too high, so that the autopilot goes back and tries another.
func withPilot(words ...string) []string {
	return override([]string{"autopilot=true", "max_steps=9", "learning_rate=3", "eval_samples=0", "eval_k=0"}, words)
}

func readDeeds(t *testing.T, dir string) []autopilot.Decision {
	t.Helper()
	all, err := jsonl.OfKind[autopilot.Decision](filepath.Join(dir, autopilot.File), "")
	require.NoError(t, err)
	return all
}

// A learning rate that is far too high is noticed at once: the run goes back, uses a smaller one, reports that, and loses nothing.
func TestTheAutopilotGoesBack(t *testing.T) {
	dir := t.TempDir()
	tr, l := setup{dir: dir, words: withPilot()}.open(t)
	run(t, tr)
	did := readDeeds(t, dir)
	require.NotEmpty(t, did)
	require.Equal(t, autopilot.RolledBack, did[0].Did)
	require.Equal(t, 0, *did[0].To)
	require.Equal(t, 3.0, did[0].Before)
	require.Less(t, did[0].After, 3.0)
	require.NotEmpty(t, did[0].Undone)

	seen := map[int]bool{}
	recorded, err := jsonl.OfKind[Metrics](filepath.Join(dir, metricsFile), "")
	require.NoError(t, err)
	for i, m := range recorded {
		require.Equal(t, i+1, m.Step, "each step is on record once")
		require.Equal(t, m.LearningRate, m.Autopilot[autopilot.Rate])
		seen[m.Step] = true
	}
	require.Len(t, seen, 9)
	require.Greater(t, len(l.metrics), 9, "some were undone")
	aside, err := filepath.Glob(filepath.Join(dir, rundir.Checkpoints, rundir.RolledBackDir, "*", metricsFile))
	require.NoError(t, err)
	require.NotEmpty(t, aside, "undone lines are set aside")
	require.Contains(t, tr.Autopilot(), "settings at the end: learning_rate=")
	require.Contains(t, l.warnings[0]+l.warnings[1], "goes back to step 0, and continues with learning_rate=")
}

// Replays of the steps that remain have the same bits, with the settings that each step had.
func TestPilotedStepsAreReplayed(t *testing.T) {
	race.SkipCovered(t)
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: withPilot("pipeline=full", "learning_rate=0.0001", "max_steps=5")}.open(t)
	tr.pilot.Now[autopilot.Temperature] = 1.3 // as if the autopilot had tried it
	tr.putInForce()
	run(t, tr)
	require.NoError(t, os.RemoveAll(checkpoint(dir, 2)))
	require.Equal(t, autopilot.Tried, readDeeds(t, dir)[0].Did)
	steps, _, err := replayed(t, dir, 4)
	require.NoError(t, err)
	require.Contains(t, steps, 4)
}

// If the autopilot goes back to before the step from which its process resumed, the repeated steps have the settings of that process. If
// the checkpoint for that is gone, it goes back to the one from which the run resumed.
func TestTheAutopilotGoesBackBehindItsProcess(t *testing.T) {
	dir := t.TempDir()
	calm := []string{"learning_rate=0.0001", "max_steps=3", "save_every=1", "keep_last=0"}
	tr, _ := setup{dir: dir, words: withPilot(calm...)}.open(t)
	run(t, tr)
	require.NoError(t, os.RemoveAll(checkpoint(dir, 3)))
	tr, _ = setup{dir: dir, words: withPilot("weight_decay=0.3", "max_steps=6", "save_every=1", "keep_last=0")}.open(t)
	run(t, tr)
	did := readDeeds(t, dir)
	require.True(t, slices.ContainsFunc(did, func(d autopilot.Decision) bool { return d.To != nil && *d.To < 2 }), "%v", did)
	_, _, err := replayed(t, dir, 2)
	require.NoError(t, err)

	dir = t.TempDir()
	tr, _ = setup{dir: dir, words: withPilot(calm...)}.open(t)
	run(t, tr)
	require.NoError(t, errors.Join(os.RemoveAll(checkpoint(dir, 3)), os.RemoveAll(checkpoint(dir, 1))))
	tr, l := setup{dir: dir, words: withPilot("max_steps=6")}.open(t)
	run(t, tr)
	require.Contains(t, l.warnings[0], "no checkpoint of step 1 any more; it goes back to step 2 instead")
	require.True(t, slices.ContainsFunc(readDeeds(t, dir), func(d autopilot.Decision) bool { return d.To != nil && *d.To == 2 }))
}

// The checkpoint that the autopilot would go back to is kept, however few are kept.
func TestWhereTheAutopilotGoesBackToIsKept(t *testing.T) {
	race.SkipCovered(t)
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: withPilot("learning_rate=0.0001", "max_steps=4", "save_every=1", "keep_last=0")}.open(t)
	run(t, tr)
	tr.cfg.KeepLast, tr.cfg.KeepBest, tr.pilot.Anchor = 1, 0, 2
	require.NoError(t, tr.retain())
	require.DirExists(t, checkpoint(dir, 2))
	require.NoDirExists(t, checkpoint(dir, 3))
	require.DirExists(t, checkpoint(dir, 4))
}

// A run with an autopilot that is interrupted at the beginning of any phase and resumed ends like an uninterrupted one. This tests some
// phases; GRPO_KILLS=20 tests each.
func TestPilotedRunsAreResumedToTheByte(t *testing.T) {
	for _, words := range race.FirstOnly(withPilot("pipeline=full", "max_steps=4", "save_every=1", "keep_last=1"), withPilot("max_steps=6")) {
		whole := setup{dir: t.TempDir(), words: words}
		tr, l := whole.open(t)
		phases := 0
		l.onPhase = func(string) { phases++ }
		require.NoError(t, tr.Run(t.Context()))
		want, did := files(t, whole.dir), readDeeds(t, whole.dir)
		require.NotEmpty(t, did)
		for stop := 2; stop <= phases; stop += stride(t, 60) {
			interrupted := setup{dir: t.TempDir(), words: words}
			interrupted.runInPieces(t, stop, 9)
			requireSame(t, want, files(t, interrupted.dir))
			require.Equal(t, did, readDeeds(t, interrupted.dir))
		}
	}
}

// A setting given by the user overrides a value that the autopilot tried; without the autopilot the run's own setting counts.
func TestWhatIsSaidCountsMoreThanWhatWasTried(t *testing.T) {
	s := setup{dir: t.TempDir(), words: withPilot("max_steps=4")}
	tr, _ := s.open(t)
	run(t, tr)
	require.NotEmpty(t, tr.pilot.Now)
	s.words = withPilot("max_steps=5")
	tr, _ = s.open(t)
	require.NotEqual(t, 3.0, tr.learner.PeakRate())
	require.NoError(t, tr.Close())
	s.words = withPilot("max_steps=5", "learning_rate=0.02")
	tr, _ = s.open(t)
	require.Equal(t, 0.02, tr.learner.PeakRate())
	require.NoError(t, tr.Close())
	s.words = withPilot("max_steps=5", "autopilot=false", "learning_rate=0.02")
	tr, l := s.open(t)
	require.Equal(t, 0.02, tr.learner.PeakRate())
	run(t, tr)
	require.Empty(t, l.metrics[0].Autopilot)
	require.NotEmpty(t, readDeeds(t, s.dir), "the autopilot's actions stay on record")
}

func TestTheAutopilotWantsSomewhereToGoBackToAndSomethingToMeasureOn(t *testing.T) {
	_, _, err := setup{words: withPilot()}.tryOpen(t)
	require.ErrorContains(t, err, "autopilot: it goes back to checkpoints, and this trainer is unrecorded")
	_, _, err = setup{dir: t.TempDir(), words: withPilot("test_data=", "eval_every=-1")}.tryOpen(t)
	require.ErrorContains(t, err, "autopilot: no problems are held out, and a tenth of the 6 training problems is too few")
}

// A trial of format_weight has the same result after a resume, also with weight 0; and completions sampled ahead are scored with the
// weight in force when the run is resumed.
func TestATriedWeightOfTheFormat(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "p.jsonl")
	require.NoError(t, os.WriteFile(rows, []byte(manyRows(6)), 0o644))
	s := setup{dir: t.TempDir(), options: []Option{WithGrader(nil)}, words: withPilot("pipeline=full", "learning_rate=0.0001", "max_steps=-1",
		"format_coef=0", "on_truncated=penalise", "max_tokens=2", "data="+rows)}
	tr, _ := s.open(t)
	tr.pilot.Now[autopilot.Format] = 0.5
	tr.putInForce()
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	ahead := func(tr *Trainer) (rewards []float64) {
		scored, err := tr.awaitScores(t.Context(), tr.ahead)
		require.NoError(t, err)
		for _, g := range gather(tr.ahead.prompts, scored) {
			for _, r := range g.Rollouts {
				rewards = append(rewards, r.Score.Reward)
			}
		}
		return rewards
	}
	want := ahead(tr)
	require.Contains(t, want, -0.5)
	_, err = tr.Save(t.Context())
	require.NoError(t, err)
	require.NoError(t, tr.Close())

	tr, _ = s.open(t)
	require.Equal(t, want, ahead(tr))
	delete(tr.pilot.Now, autopilot.Format) // as after a trial that did not help
	tr.putInForce()
	again, err := tr.restoreAhead(filepath.Join(checkpoint(s.dir, 1), aheadFile))
	require.NoError(t, err)
	tr.ahead = again
	require.NotContains(t, ahead(tr), -0.5)
}

// If the grader failed on completions sampled ahead that are no longer needed, the run ends after it has gone back, and not halfway.
func TestTheAutopilotGoesBackWhereTheGraderFailed(t *testing.T) {
	var gone []data.Problem
	drawn := make(chan struct{})
	grader := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		if slices.ContainsFunc(gone, func(p data.Problem) bool { return p.ID == c.Problem.ID }) {
			<-drawn
			return reward.Score{}, errors.New("the grader is gone")
		}
		return vowels(ctx, c)
	}
	s := setup{dir: t.TempDir(), words: withPilot("pipeline=full"), options: []Option{WithGrader(reward.GraderFunc(grader))}}
	tr, _ := s.open(t)
	require.NoError(t, tr.begin(t.Context()))
	require.NoError(t, tr.steer(t.Context()))
	require.NoError(t, tr.save())
	cursor := tr.pool.Cursor()
	gone = tr.pool.Take(4)[2:] // the problems of the next step
	_, err := tr.pool.Restore(cursor)
	require.NoError(t, err)
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	failed := make(chan error, 1)
	tr.ahead.rounds[0].Broken(func(why error) { failed <- why })
	close(drawn)
	<-failed
	require.ErrorContains(t, tr.steer(t.Context()), "the grader is gone")
	require.Equal(t, autopilot.RolledBack, readDeeds(t, s.dir)[0].Did)
	require.Zero(t, tr.step)
	require.NoError(t, tr.Close())
	tr, _ = s.open(t)
	require.Zero(t, tr.step)
	require.Less(t, tr.learner.PeakRate(), 3.0)
}

// Completions sampled ahead are discarded if their problems have changed or were left out: also if an autopilot joins a run without
// held-out problems, and takes some training problems to measure on.
func TestTheAutopilotJoinsARunThatSampledAhead(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "p.jsonl")
	require.NoError(t, os.WriteFile(rows, []byte(manyRows(80)), 0o644))
	s := setup{dir: t.TempDir(), words: []string{"pipeline=full", "data=" + rows, "test_data=", "eval_every=-1", "eval_samples=0", "eval_k=0",
		"prompts_per_step=40", "completions_per_prompt=2", "max_tokens=2", "max_steps=3", "learning_rate=0.001"}}
	tr, _ := s.open(t)
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	_, err = tr.Save(t.Context())
	require.NoError(t, err)
	require.NoError(t, tr.Close())
	others := filepath.Join(t.TempDir(), "q.jsonl")
	require.NoError(t, os.WriteFile(others, []byte(strings.ReplaceAll(manyRows(80), `"7"`, `"8"`)), 0o644))
	for _, words := range [][]string{{"data=" + others, "allow_change=data"}, {"max_prompt_chars=9"}, {"max_steps=4"}} {
		tr, _ = setup{dir: s.dir, words: override(s.words, words)}.open(t)
		require.Equal(t, len(words) == 1 && words[0] == "max_steps=4", tr.ahead != nil, words)
		require.NoError(t, tr.Close())
	}
	s.words = append(s.words, "autopilot=true")
	tr, _ = s.open(t)
	require.Nil(t, tr.ahead)
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
}

// manyRows are n different problems.
func manyRows(n int) string {
	var text strings.Builder
	for i := range n {
		prompt := strings.Repeat("a", i/9+1) + " " + strings.Repeat("e", i%9+1)
		fmt.Fprintf(&text, `{"id":"p%d","prompt":"%s","answer":"7","match":"math"}`+"\n", i, prompt)
	}
	return text.String()
}
