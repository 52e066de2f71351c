package grpo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/reward"
)

type failing struct{}

func (failing) Grade(context.Context, reward.Completion) (reward.Score, error) {
	return reward.Score{}, errors.New("the sandbox is gone")
}

// A grader that fails fails every step that needs it, also one that was sampled ahead; nobody waits for
// scores that will not come.
func TestABrokenGraderIsAnErrorEachTime(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		tr, _ := setup{dir: t.TempDir(), steps: 5, change: func(tr *Trainer) { tr.SampleAhead, tr.EvalEvery = ahead, -1 }}.trainer(t)
		m, timing, err := tr.Step(t.Context())
		require.NoError(t, err)
		require.NoError(t, tr.conclude(m, timing))
		tr.Grader = failing{}
		for range 3 {
			if _, _, err = tr.Step(t.Context()); err != nil {
				break // the step that was ahead has its scores
			}
		}
		for range 2 {
			require.ErrorContains(t, err, "score: the sandbox is gone")
			_, _, err = tr.Step(t.Context())
		}
		if err := tr.save(); err != nil {
			require.ErrorContains(t, err, "the sandbox is gone")
		}
	}
}

func TestAnUpdateThatBreaksTheModelIsNamed(t *testing.T) {
	tr, _ := setup{steps: 3, change: func(tr *Trainer) { tr.LearningRate, tr.EvalEvery = 1e30, -1 }}.trainer(t)
	require.ErrorContains(t, tr.Run(t.Context()), "step 1: the update left log-probabilities that are not finite; lower learning_rate")
}

// A gradient that is not finite changes nothing, and its sample is named.
func TestANonFiniteGradientIsSkipped(t *testing.T) {
	dir := t.TempDir()
	tr, q := setup{dir: dir, steps: 1, change: func(tr *Trainer) {
		tr.EvalEvery, tr.Grader = -1, huge{}
	}}.trainer(t)
	before, err := tr.Policy.Hash()
	require.NoError(t, err)
	m, _, err := tr.Step(t.Context())
	require.NoError(t, err)
	require.False(t, m.Updated)
	require.Equal(t, before, m.Trained)
	require.Zero(t, tr.Adam.Steps())
	require.Len(t, q.warnings, 1)
	require.Contains(t, q.warnings[0], "step 1: no update")
	require.FileExists(t, filepath.Join(dir, "non_finite_step_000001.json"))
}

// huge pays so much for one completion that a float32 gradient cannot hold it.
type huge struct{}

func (huge) Grade(_ context.Context, c reward.Completion) (reward.Score, error) {
	return reward.Score{Reward: 3e38 * float64(len(c.Text)%3), Verdict: reward.WA}, nil
}

func TestTrainingProblemsAreNotHeldOut(t *testing.T) {
	dir := t.TempDir()
	task := `{"id":"%","prompt":"Write a program that reads a number and prints it.","tests":[{"input":"1\n","output":"1\n"}]}` + "\n"
	write := func(name, ids string) string {
		path := filepath.Join(dir, name)
		var text strings.Builder
		for id := range strings.SplitSeq(ids, "") {
			text.WriteString(strings.ReplaceAll(task, "%", id))
		}
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
		return path
	}
	train, held := write("train.jsonl", "abc"), write("held.jsonl", "bcde")
	q := &quiet{}
	s := open(t, q, "run_dir="+filepath.Join(dir, "run"), "data="+train, "test_data="+held, "eval_problems=0")
	require.Len(t, s.HeldOut, 2)
	require.Equal(t, "d", s.HeldOut[0].ID)
	require.Equal(t, []string{"2 problems of test_data are among those to train on, and are not evaluated"}, q.warnings)
	_, err := tryOpen(t, q, "run_dir="+filepath.Join(dir, "run"), "data="+train, "test_data="+write("same.jsonl", "cb"))
	require.ErrorContains(t, err, "test_data: all its problems are among those to train on")
}

func TestASandboxServerMustBeNamed(t *testing.T) {
	t.Setenv("SANDBOX_URL", "")
	_, err := tryOpen(t, nil, "run_dir="+t.TempDir(), "sandbox=fusion", "deterministic=false")
	require.ErrorContains(t, err, "sandbox=fusion: no server is named; type sandbox_url=")
}

func TestACheckpointOutsideOfARunIsForkedOnly(t *testing.T) {
	run, alone := t.TempDir(), filepath.Join(t.TempDir(), "copied")
	tr, _ := setup{dir: run, steps: 2}.trainer(t)
	require.NoError(t, tr.Run(t.Context()))
	require.NoError(t, os.CopyFS(alone, os.DirFS(filepath.Join(run, checkpointsDir, stepName(2)))))
	s := &Session{Config: &configs.Config{Resume: alone}, Trainer: &Trainer{}}
	require.ErrorContains(t, s.settle(), "is a checkpoint outside of a run; type init_from="+alone)

	t.Chdir(filepath.Join(run, checkpointsDir))
	s.Config.Resume = stepName(2)
	require.NoError(t, s.settle())
	require.Equal(t, "..", s.Config.RunDir)
}

// Only an evaluation of a step that has a checkpoint can keep one.
func TestTheBestIsAmongTheSaved(t *testing.T) {
	dir := t.TempDir()
	tr, q := setup{dir: dir, steps: 9, change: func(tr *Trainer) { tr.KeepLast, tr.KeepBest, tr.EvalEvery, tr.SaveEvery = 1, 1, 1, 3 }}.trainer(t)
	require.NoError(t, tr.Run(t.Context()))
	best := q.evals[3]
	for _, step := range []int{6, 9} {
		if q.evals[step].Greedy > best.Greedy {
			best = q.evals[step]
		}
	}
	all, err := Checkpoints(dir)
	require.NoError(t, err)
	require.Contains(t, all, filepath.Join(dir, checkpointsDir, stepName(best.Step)))
	require.Contains(t, all, filepath.Join(dir, checkpointsDir, stepName(9)))
}
