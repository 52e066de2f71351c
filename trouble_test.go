package grpo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
)

// A failing grader fails every step that needs it, also one that was sampled ahead; nobody waits for scores that will not come.
func TestABrokenGraderIsAnErrorEachTime(t *testing.T) {
	for _, pipeline := range []string{"score", "full", "off"} {
		var gone atomic.Bool
		grade := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
			if gone.Load() {
				return reward.Score{}, errors.New("the sandbox is gone")
			}
			return vowels(ctx, c)
		}
		tr, _, err := setup{dir: t.TempDir(), words: []string{"max_steps=5", "eval_every=-1", "pipeline=" + pipeline},
			options: []Option{WithGrader(reward.GraderFunc(grade))}}.tryOpen(t)
		require.NoError(t, err)
		_, err = tr.Step(t.Context(), nil, StepOptions{})
		require.NoError(t, err)
		gone.Store(true)
		whole := 0
		for errs := 0; errs < 3; {
			cursor := tr.Pool().Cursor()
			if _, err = tr.Step(t.Context(), nil, StepOptions{}); err == nil {
				whole++
				continue
			}
			errs++
			require.ErrorContains(t, err, "score: the sandbox is gone")
			require.Equal(t, cursor, tr.Pool().Cursor(), "the pool's cursor is as before")
		}
		if pipeline == "full" {
			require.LessOrEqual(t, whole, 1, "the step that was sampled ahead may have its scores")
		} else {
			require.Zero(t, whole)
		}
		_, err = tr.Save(t.Context())
		require.NoError(t, err)
		if err := tr.Close(); err != nil { // with a step sampled ahead
			require.ErrorContains(t, err, "the sandbox is gone")
		}
	}
}

// A step that fails while it changes the policy leaves one that belongs to no step: it is neither trained further nor saved.
func TestAnUpdateThatBreaksTheModelIsNamed(t *testing.T) {
	tr, _ := setup{dir: t.TempDir(), words: []string{"max_steps=3", "eval_every=-1", "learning_rate=1e30", "schedule=linear",
		"scheduler_total_steps=4", "warmup_steps=2"}}.open(t)
	require.ErrorContains(t, tr.Run(t.Context()), "step 1: the update left log-probabilities that are not finite; lower learning_rate, "+
		"which is 1e+30 now: type grpo run_dir="+tr.RunDir()+" learning_rate=0.001 to go on from the last checkpoint, if there is one")
	_, err := tr.Save(t.Context())
	require.ErrorContains(t, err, "not finished")
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "not finished")

	tr, _ = setup{dir: t.TempDir(), words: []string{"max_steps=3", "eval_every=-1", "learning_rate=3e38", "weight_decay=1000"}}.open(t)
	err = tr.Run(t.Context())
	require.ErrorContains(t, err, "step 1: update: learning_rate: found 3e+38, which would make a number of ")
	require.ErrorContains(t, err, "before the step; lower learning_rate, which is 3e+38 now: type grpo run_dir="+tr.RunDir()+
		" learning_rate=0.001 to go on")
}

// An interrupt saves the last whole step, and never a half-updated policy.
func TestAHalfUpdatedPolicyIsNotSaved(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	breaks := func(s *model.LossSequence) float64 {
		if calls++; calls > 2*6 { // during the second iteration
			cancel()
			return math.NaN()
		}
		for i := range s.Grad {
			s.Grad[i] = -s.Advantage[i]
		}
		return 0
	}
	words := []string{"max_steps=3", "eval_every=-1", "num_iterations=2"}
	tr, _ := setup{dir: dir, words: words, options: []Option{WithLoss(breaks)}}.open(t)
	require.ErrorContains(t, tr.Run(ctx), "the program's own loss is NaN")
	require.NoError(t, tr.save()) // as after an interrupt
	all, err := rundir.List(dir)
	require.NoError(t, err)
	require.Empty(t, all)
}

// An interrupt during an update lets the step end: it is recorded and saved.
func TestAnInterruptedUpdateIsEnded(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	interrupts := func(s *model.LossSequence) float64 {
		cancel()
		for i := range s.Grad {
			s.Grad[i] = -s.Advantage[i]
		}
		return 0
	}
	words := []string{"max_steps=3", "eval_every=-1", "max_rows=1024"} // one batch
	tr, l := setup{dir: dir, words: words, options: []Option{WithLoss(interrupts)}}.open(t)
	require.ErrorIs(t, tr.Run(ctx), context.Canceled)
	require.Equal(t, 1, tr.StepsDone())
	require.Len(t, l.metrics, 1)
	require.True(t, l.metrics[0].Updated)
	require.DirExists(t, checkpoint(dir, 1))
}

// The scores of a step sampled ahead are requested again when the grader works again; the result is as if it had never failed.
func TestABrokenGraderMayRecover(t *testing.T) {
	s := setup{words: []string{"max_steps=4", "eval_every=-1", "pipeline=full"}}
	tr, want := s.open(t)
	run(t, tr)
	var second string // a problem of the second step
	var failures atomic.Int32
	first := make(chan struct{}) // closed with the first step, when the second is sampled
	grade := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		if c.Problem.ID == second {
			if <-first; failures.Add(1) == 1 {
				return reward.Score{}, errors.New("the sandbox is gone")
			}
		}
		return vowels(ctx, c)
	}
	s.options = []Option{WithGrader(reward.GraderFunc(grade))}
	tr, got := s.open(t)
	cursor := tr.pool.Cursor()
	second = tr.pool.Take(3)[2].ID
	_, err := tr.pool.Restore(cursor)
	require.NoError(t, err)
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	close(first)
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "step 2: score: the sandbox is gone")
	require.Equal(t, 1, strings.Count(err.Error(), "gone"), "the cause is named once")
	run(t, tr)
	require.Equal(t, want.metrics, got.metrics)
}

// If a step cannot be recorded in full, the run ends: a later step would leave a gap in the record.
func TestAStepThatCannotBeWrittenDownIsTheLast(t *testing.T) {
	dir := t.TempDir()
	tr, _, err := setup{dir: dir, words: []string{"max_steps=3", "eval_every=-1"}}.tryOpen(t)
	require.NoError(t, err)
	defer tr.Close() // Close reports that the log is closed
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.NoError(t, tr.record.Log(trainLogFile).(io.Closer).Close())
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "step 2: record: ")
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "not finished; resume from the last checkpoint: record: ")
	require.NoError(t, tr.save())
	all, err := rundir.List(dir)
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	tr, _ := setup{}.open(t)
	_, err := tr.Step(t.Context(), []data.Problem{}, StepOptions{})
	require.ErrorContains(t, err, "a step of 0 problems")
	_, err = tr.Step(t.Context(), nil, StepOptions{Iterations: -1})
	require.ErrorContains(t, err, "-1 iterations")
	_, err = tr.Sample(t.Context(), tr.HeldOut(), -1, 1)
	require.ErrorContains(t, err, "-1 completions")
	for says, f := range map[string]AdvantageFunc{
		"0 advantages for 6 rewards": func([]float64) []float64 { return nil },
		"an advantage of NaN":        func(r []float64) []float64 { return slices.Repeat([]float64{math.NaN()}, len(r)) },
	} {
		tr, _ := setup{options: []Option{WithAdvantage(f), WithGroups(nil)}}.open(t)
		cursor := tr.Pool().Cursor()
		_, err := tr.Step(t.Context(), nil, StepOptions{})
		require.ErrorContains(t, err, says)
		require.Equal(t, cursor, tr.Pool().Cursor())
	}
	require.NoError(t, tr.Close())
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorIs(t, err, errClosed)
	_, err = tr.Evaluate(t.Context())
	require.ErrorIs(t, err, errClosed)
}

// A directory that another process filled in the meantime is not touched.
func TestARunThatAppearsMeanwhileIsLeftAlone(t *testing.T) {
	s := setup{dir: filepath.Join(t.TempDir(), "run"), words: []string{"max_steps=1", "eval_every=-1"}}
	late, _ := s.open(t)
	tr, _ := s.open(t)
	run(t, tr)
	before := files(t, s.dir)
	_, err := late.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "another process has trained in "+s.dir+" meanwhile")
	requireSame(t, before, files(t, s.dir))
}

// A non-finite gradient changes nothing, and the sample is named.
func TestANonFiniteGradientIsSkipped(t *testing.T) {
	for _, size := range []float64{1.6e38, 1e30} { // of the latter only the square overflows
		nonFinite(t, size)
	}
}

func nonFinite(t *testing.T, size float64) {
	dir := t.TempDir()
	huge := func(_ context.Context, c reward.Completion) (reward.Score, error) { // more than a float32 gradient can hold
		return reward.Score{Reward: size * float64(len(c.Text)%3-1), Verdict: reward.WA}, nil
	}
	tr, l := setup{dir: dir, words: []string{"max_steps=1", "eval_every=-1"}, options: []Option{WithGrader(reward.GraderFunc(huge))}}.open(t)
	before, err := tr.Policy().Hash()
	require.NoError(t, err)
	m, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.False(t, m.Updated)
	require.Equal(t, before, m.Trained)
	require.Zero(t, tr.learner.Adam.Steps())
	require.Len(t, l.warnings, 2)
	require.Regexp(t, `^problem p\d: completion \d of the \d that count earned -?\S+e\+3\d, so far from the others`, l.warnings[0])
	require.Regexp(t, `^step 1: no update: the gradient of \S+ is \S+ .* the cause: sample \d of problem p\d`, l.warnings[1])
	saved := filepath.Join(dir, "non_finite_step_000001.jsonl")
	require.Contains(t, l.warnings[1], "; saved to "+saved+", which grpo replay --datums reads")
	require.Contains(t, lines(t, saved)[0], "advantage")
}

// The same for an infinite divergence from the reference, which is not reported itself: the update did not happen.
func TestAnInfiniteDivergenceIsSkipped(t *testing.T) {
	tr, l := setup{dir: t.TempDir(), words: []string{"max_steps=1", "eval_every=-1", "num_iterations=2", "temperature=0.003", "kl_coef=0.1",
		"kl_in=loss", "kl_estimator=k3", "learning_rate=1", "seed=0"}}.open(t)
	run(t, tr)
	require.Regexp(t, `^step 1: no further update: the gradient of \S+ is NaN`, l.warnings[0])
	require.Zero(t, *l.metrics[0].KLRef, "the divergence is that of the first update")
}

func TestTrainingProblemsAreNotHeldOut(t *testing.T) {
	race.SkipCovered(t)
	dir := t.TempDir()
	task := `{"id":"%","prompt":"Write a program that reads a number and prints it $ times.","tests":[{"input":"1\n","output":"1\n"}]}` + "\n"
	write := func(name, tasks string) string {
		path := filepath.Join(dir, name)
		var text strings.Builder
		for i, what := range strings.Split(tasks, "") {
			text.WriteString(strings.NewReplacer("%", fmt.Sprint(i), "$", what).Replace(task)) // problems that differ only in their ids are equal
		}
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
		return path
	}
	train, held := write("train.jsonl", "abc"), write("held.jsonl", "bcde")
	q := &listener{}
	s := open(t, q, "run_dir="+filepath.Join(dir, "run"), "data="+train, "test_data="+held, "eval_problems=0")
	require.Len(t, s.HeldOut(), 2)
	require.Contains(t, s.HeldOut()[0].Statement, "prints it d times")
	require.Equal(t, []string{"2 problems of test_data are also in data (0 is 1 there), and are not evaluated"}, q.warnings)
	_, err := tryOpen(t, q, "run_dir="+filepath.Join(dir, "run"), "data="+train, "test_data="+write("same.jsonl", "cb"))
	require.ErrorContains(t, err, "test_data: all its problems are among those to train on (0 is 2 there)")

	q.warnings = nil // samples that differ only in spelling are reported once
	near := open(t, q, "run_dir="+filepath.Join(dir, "run"), "data="+train, "test_data="+write("near.jsonl", "xC"), "eval_problems=0")
	require.Len(t, near.HeldOut(), 2)
	require.Equal(t, []string{"1 held-out problem is nearly equal to a training problem (1 is 100 % of 2): their results may be memorised"},
		q.warnings)
	require.Contains(t, near.Plan()[2], "2 held out; prompts of up to")
	require.Contains(t, near.Plan()[2], "; 1 of these nearly equal to a training problem")

	saved := open(t, q, "run_dir="+filepath.Join(dir, "saved"), "data="+train, "test_data="+held, "eval_problems=0")
	_, err = saved.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	_, err = saved.Save(t.Context())
	require.NoError(t, err)
	e, err := OpenRun(t.Context(), saved.RunDir(), backend(t, 0), nil, nil, WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	require.Len(t, e.HeldOut(), 2, "an evaluation of the run leaves them out, too")
	require.Contains(t, e.HeldOut()[0].Statement, "prints it d times")
	require.NoError(t, e.Close())
}

func TestASandboxServerMustBeNamed(t *testing.T) {
	t.Setenv("SANDBOX_URL", "")
	_, err := tryOpen(t, nil, "run_dir="+t.TempDir(), "sandbox=fusion", "deterministic=false")
	require.ErrorContains(t, err, "sandbox=fusion: no server is named; type sandbox_url=")
}
