package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/reward"
)

// stepTime is how the wall-clock time of a step was spent, in seconds.
type stepTime struct {
	sample, score, train, total float64
	tokens                      int
}

// stepRun is a run with one pipeline.
type stepRun struct {
	steps            []stepTime
	programs         float64 // programs per step to which work was added
	slots            int
	timeout          time.Duration
	adapter          string
	backend, sandbox string
}

// measure takes the steps with a pipeline, with a new trainer. The first step is a warm-up; the last step of a run that
// samples ahead samples nothing.
func (b *Step) measure(ctx context.Context, pipeline string, work time.Duration) (*stepRun, error) {
	cfg, err := configs.Load(configs.Source{Preset: b.Preset, Overrides: append(slices.Clone(b.Words), "pipeline="+pipeline)})
	if err != nil {
		return nil, err
	}
	back, err := b.Open(cfg.Device, cfg.Threads)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	cfg.MaxSteps, cfg.EvalEvery, cfg.SaveEvery, cfg.KeepBest = b.Steps+2, -1, -1, 0
	log := &stepLog{Watcher: b.Watch}
	var grader *slowGrader
	t, err := grpo.Open(ctx, cfg, back, log, grpo.Unrecorded(), grpo.WrapGrader(func(g reward.Grader) reward.Grader {
		grader = &slowGrader{Grader: g, work: work, sleep: b.Sleep}
		return grader
	}))
	if err != nil {
		return nil, err
	}
	log.last = time.Now()
	err = t.Run(ctx)
	r := &stepRun{slots: max(t.Sandbox().Slots, 1), timeout: time.Duration(cfg.RewardTimeout * float64(time.Second)),
		backend: back.Name(), sandbox: t.Sandbox().String()}
	if err == nil {
		r.programs = float64(grader.programs.Load()) / float64(len(log.steps))
		r.steps = log.steps[1 : len(log.steps)-1]
		r.adapter, err = t.Policy().Hash()
	}
	return r, errors.Join(err, t.Close())
}

// stepLog records the time of each step.
type stepLog struct {
	grpo.Watcher
	last  time.Time
	steps []stepTime
}

// StepDone records a step.
func (l *stepLog) StepDone(m grpo.Metrics, t grpo.Timing, _ []grpo.Advice) {
	now := time.Now()
	l.steps = append(l.steps, stepTime{t.Sample, t.Score, t.Train, now.Sub(l.last).Seconds(), m.CompletionTokens})
	l.last = now
}
