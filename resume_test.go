package grpo

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/reward"
)

// kinds are ways to run whose interruption differs.
var kinds = map[string]func(*Trainer){
	"plain":                          nil,
	"scores at the end, two updates": func(tr *Trainer) { tr.ScoreWhenDone, tr.Iterations = true, 2 },
	"a step ahead":                   func(tr *Trainer) { tr.SampleAhead = true },
	"refilled, ahead, evaluated each step": func(tr *Trainer) {
		tr.MaxRefills, tr.PromptsPerStep, tr.SampleAhead, tr.EvalEvery = 2, 3, true, 1
	},
}

// A run that is interrupted at the beginning of any phase and resumed ends as one that never was. Here at
// some phases, with GRPO_KILLS at each.
func TestResumedRunsAreEqualToTheByte(t *testing.T) {
	stride := 25
	if os.Getenv("GRPO_KILLS") != "" {
		stride = 1
	}
	for name, change := range kinds {
		t.Run(name, func(t *testing.T) {
			whole := setup{dir: t.TempDir(), steps: 4, change: change}
			tr, q := whole.trainer(t)
			phases := 0
			q.onPhase = func(string) { phases++ }
			require.NoError(t, tr.Run(t.Context()))
			want := files(t, whole.dir)

			for stop := 1; stop <= phases; stop += stride {
				interrupted := setup{dir: t.TempDir(), steps: 4, change: change}
				for from := stop; ; from += 5 { // interrupted again and again
					tr, q := interrupted.trainer(t)
					ctx, cancel := context.WithCancel(t.Context())
					left := from
					q.onPhase = func(string) {
						if left--; left == 0 {
							cancel()
						}
					}
					err := tr.Run(ctx)
					cancel()
					if err == nil {
						break
					}
					require.ErrorIs(t, err, context.Canceled)
				}
				requireSame(t, want, files(t, interrupted.dir))
			}
		})
	}
}

// With a step sampled ahead the data is one update old, which is known and counted.
func TestASampledAheadRunLearnsFromThePolicyBefore(t *testing.T) {
	tr, q := setup{steps: 6, change: func(tr *Trainer) { tr.SampleAhead, tr.EvalEvery = true, -1 }}.trainer(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Zero(t, q.metrics[0].Staleness)
	require.Zero(t, q.metrics[0].OnPolicy)
	require.Equal(t, q.metrics[0].Policy, q.metrics[1].Policy, "both are drawn before the first update")
	for i, m := range q.metrics[1:] {
		require.Equal(t, 1, m.Staleness)
		require.Positive(t, m.OnPolicy)
		if i > 0 {
			require.Equal(t, q.metrics[i-1].Trained, m.Policy)
		}
	}
	require.Nil(t, tr.ahead, "nothing is drawn for a step that does not come")

	tr, q = setup{steps: 3, change: func(tr *Trainer) { tr.EvalEvery = -1 }}.trainer(t)
	require.NoError(t, tr.Run(t.Context()))
	for i, m := range q.metrics[1:] {
		require.Zero(t, m.Staleness)
		require.Equal(t, q.metrics[i].Trained, m.Policy)
	}
}

// patient never ends before it is told to.
type patient struct{ first, calls *atomic.Int32 }

func (p patient) Grade(ctx context.Context, c reward.Completion) (reward.Score, error) {
	if p.calls.Add(1) > p.first.Load() {
		<-ctx.Done()
		return reward.Score{}, ctx.Err()
	}
	return vowels{}.Grade(ctx, c)
}

// Who interrupts does not wait for the scores of a step that is sampled ahead: they are asked for again.
func TestAnInterruptDoesNotWaitForScores(t *testing.T) {
	ahead := func(tr *Trainer) { tr.SampleAhead, tr.EvalEvery = true, -1 }
	whole := setup{dir: t.TempDir(), steps: 3, change: ahead}
	tr, _ := whole.trainer(t)
	require.NoError(t, tr.Run(t.Context()))

	interrupted := setup{dir: t.TempDir(), steps: 3, change: ahead}
	tr, q := interrupted.trainer(t)
	p := patient{new(atomic.Int32), new(atomic.Int32)}
	p.first.Store(int32(tr.PromptsPerStep * tr.CompletionsPerPrompt))
	tr.Grader = p
	ctx, cancel := context.WithCancel(t.Context())
	q.onStep = func(Metrics) { cancel() }
	require.ErrorIs(t, tr.Run(ctx), context.Canceled)
	require.NotNil(t, tr.ahead)
	require.NoError(t, tr.ahead.scores.abandon())

	tr, _ = interrupted.trainer(t)
	require.Equal(t, 1, tr.step)
	require.NoError(t, tr.Run(t.Context()))
	requireSame(t, files(t, whole.dir), files(t, interrupted.dir))
}

func TestGoingOnFromAnEarlierCheckpointSetsTheLaterAside(t *testing.T) {
	dir := t.TempDir()
	tr, _ := setup{dir: dir, steps: 6}.trainer(t)
	require.NoError(t, tr.Run(t.Context()))
	want := files(t, dir)

	tr, _ = setup{steps: 6}.trainer(t)
	o, err := tr.named("resume", filepath.Join(dir, checkpointsDir, stepName(2)))
	require.NoError(t, err)
	require.NoError(t, tr.begin(dir, o))
	defer tr.record.Close()
	require.Equal(t, 2, tr.step)
	left, err := Checkpoints(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	aside, err := filepath.Glob(filepath.Join(dir, checkpointsDir, asideDir, "*", "step_*"))
	require.NoError(t, err)
	require.Len(t, aside, 2)
	require.NoError(t, tr.Run(t.Context()))
	requireSame(t, want, files(t, dir))
}

// A checkpoint that is damaged is written again when the run comes by.
func TestADamagedCheckpointIsReplaced(t *testing.T) {
	dir := t.TempDir()
	tr, _ := setup{dir: dir, steps: 4}.trainer(t)
	require.NoError(t, tr.Run(t.Context()))
	want := files(t, dir)
	require.NoError(t, os.Truncate(filepath.Join(dir, checkpointsDir, stepName(4), momentsFile), 10))
	tr, q := setup{dir: dir, steps: 4}.trainer(t)
	require.Len(t, q.warnings, 1)
	require.Contains(t, q.warnings[0], "step_000004: optimizer.safetensors is damaged")
	require.Equal(t, 2, tr.step)
	require.NoError(t, tr.Run(t.Context()))
	requireSame(t, want, files(t, dir))

	for _, c := range []int{2, 4} {
		require.NoError(t, os.Remove(filepath.Join(dir, checkpointsDir, stepName(c), momentsFile)))
	}
	_, err := tr.named("run_dir", dir)
	require.ErrorContains(t, err, "step_000004")
	require.ErrorContains(t, err, "step_000002")
	require.ErrorContains(t, err, "no checkpoint to go on from")
}

func TestWhereARunBegins(t *testing.T) {
	run, other, empty := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{run, other} {
		tr, _ := setup{dir: dir, steps: 2}.trainer(t)
		require.NoError(t, tr.Run(t.Context()))
	}
	checkpoint := filepath.Join(run, checkpointsDir, stepName(2))
	for _, c := range []struct {
		resume, runDir, initFrom string
		from, in, err            string
		fork                     bool
	}{
		{resume: "auto", runDir: run, from: checkpoint, in: run},
		{resume: "auto", runDir: empty, in: empty},
		{resume: "never", runDir: empty, in: empty},
		{resume: "never", runDir: run, err: "has 1 checkpoints and resume=never; choose another run_dir, or resume=auto"},
		{resume: run, from: checkpoint, in: run},
		{resume: checkpoint, from: checkpoint, in: run},
		{resume: checkpoint, runDir: run + "/", from: checkpoint, in: run + "/"},
		{resume: run, runDir: empty, err: "leave run_dir out, or type init_from=" + run},
		{resume: empty, err: "no checkpoint to go on from"},
		{resume: "auto", runDir: empty, initFrom: run, from: checkpoint, in: empty, fork: true},
		{resume: "auto", runDir: empty, initFrom: checkpoint, from: checkpoint, in: empty, fork: true},
		{resume: "auto", runDir: other, initFrom: run, from: filepath.Join(other, checkpointsDir, stepName(2)), in: other},
		{resume: "auto", runDir: empty, initFrom: empty, err: "init_from=" + empty},
	} {
		s := &Session{Config: &configs.Config{Resume: c.resume, RunDir: c.runDir, InitFrom: c.initFrom}, Trainer: &Trainer{}}
		s.Watcher = &quiet{}
		err := s.settle()
		var o origin
		if err == nil {
			o, err = s.findOrigin()
		}
		if c.err != "" {
			require.ErrorContains(t, err, c.err, "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.from, o.checkpoint, "%+v", c)
		require.Equal(t, c.fork, o.fork, "%+v", c)
		if c.runDir == "" {
			require.Equal(t, c.in, s.Config.RunDir)
		}
	}
}
