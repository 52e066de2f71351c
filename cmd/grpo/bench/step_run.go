package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
)

// stepTime is where the time of a step went, in seconds, as a clock on the wall has it.
type stepTime struct {
	sample, score, train, total float64
	tokens                      int
}

// stepRun is a run with one pipeline.
type stepRun struct {
	steps            []stepTime
	programs         float64 // that worked, in a step
	slots            int
	timeout          time.Duration
	adapter          string
	backend, sandbox string
}

// measure takes the steps with a pipeline, on a session of its own. The first step warms up; the last
// one of a run that samples ahead samples nothing.
func (b *Step) measure(ctx context.Context, pipeline string, work time.Duration) (*stepRun, error) {
	cfg, err := configs.Load(configs.Source{Preset: b.Preset, Overrides: append(slices.Clone(b.Words), "pipeline="+pipeline)})
	if err != nil {
		return nil, err
	}
	back, err := b.Open(cfg.Threads)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	log := &stepLog{Watcher: b.Watch}
	s, err := grpo.Init(ctx, cfg, back, log)
	if err != nil {
		return nil, err
	}
	s.MaxSteps, s.EvalEvery, s.SaveEvery = b.Steps+2, -1, 0
	grader := &laden{Grader: s.Grader, work: work, sleep: b.Sleep}
	s.Grader = grader
	log.last = time.Now()
	err = s.Run(ctx)
	r := &stepRun{slots: max(s.Judge.Backend().Slots, 1), timeout: time.Duration(cfg.RewardTimeout * float64(time.Second)),
		backend: back.Name(), sandbox: s.Judge.Backend().String()}
	if err == nil {
		r.programs = float64(grader.programs.Load()) / float64(len(log.steps))
		r.steps = log.steps[1 : len(log.steps)-1]
		r.adapter, err = s.Policy.Hash()
	}
	return r, errors.Join(err, s.Finish())
}

// stepLog is told how long each step took.
type stepLog struct {
	grpo.Watcher
	last  time.Time
	steps []stepTime
}

// StepDone notes the step.
func (l *stepLog) StepDone(m grpo.Metrics, t grpo.Timing, _ []grpo.Advice) {
	now := time.Now()
	l.steps = append(l.steps, stepTime{t.Sample, t.Score, t.Train, now.Sub(l.last).Seconds(), m.CompletionTokens})
	l.last = now
}
