package grpo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Rules are how a run learns. They come from the configuration; see Init.
type Rules struct {
	Seed                 uint64
	PromptsPerStep       int // P
	CompletionsPerPrompt int // G
	Sampling             sampler.Params
	Advantage            AdvantageKind
	Objective            model.Objective
	Iterations           int // updates on the same rollouts
	LearningRate         float64
	Schedule             optim.Schedule
	MaxRefills           int  // rounds of P more prompts while a step has groups that teach nothing; 0: none
	ScoreWhenDone        bool // score after the last completion instead of while others are sampled
	// SampleAhead draws the completions of a step before the step before it is trained on, so that they
	// are scored meanwhile: by a policy that is one update older than the one they teach.
	SampleAhead bool

	MaxSteps  int // −1: until interrupted
	SaveEvery int // 0: at the end only
	KeepLast  int // checkpoints; 0: all
	KeepBest  int // checkpoints of the best evaluations, which stay besides
	// Deterministic ends a run whose sampler and trainer disagree.
	Deterministic bool
	BaseModel     string
	Full          bool // all weights are trained, not an adapter
	EvalEvery     int  // −1: never
	Eval          EvalRules
}

// Parts are what a trainer works with.
type Parts struct {
	Policy    *model.Policy
	Engine    *sampler.Engine
	Adam      *optim.Adam
	Problems  *data.Pool
	HeldOut   []data.Problem
	Wording   *prompt.Builder
	Renderer  *chat.Renderer
	Tokenizer *tokenizer.Tokenizer
	Grader    reward.Grader
	Watcher   Watcher
}

// Trainer runs GRPO: it holds the policy, the problems and the optimizer, and takes steps.
type Trainer struct {
	Rules
	Parts
	record      *Record // nil: nothing is written
	start       int     // the step that the run began after: above 0 in a fork
	step        int     // steps done
	evaluated   int     // the first step that has no evaluation yet
	ahead       *draft  // of the next step, where it is sampled already
	judge       adviser
	first, last *Evaluation

	train         []data.Problem // what Problems deals
	dropped       data.Dropped
	longestPrompt int
	activations   int // bytes of training and scoring
}

// Run trains to MaxSteps, evaluating and saving when due. A run that is interrupted is saved as of its last
// whole step and ends with the context's error; after a step that failed the last good checkpoint stands.
func (t *Trainer) Run(ctx context.Context) error {
	err := t.run(ctx)
	if err == nil || errors.Is(err, ctx.Err()) {
		if serr := t.save(); serr != nil {
			err = serr
		}
	}
	t.report()
	return err
}

// StepsDone is how many steps the policy has behind it.
func (t *Trainer) StepsDone() int { return t.step }

func (t *Trainer) run(ctx context.Context) error {
	for {
		if err := t.evaluateIfDue(ctx); err != nil {
			return err
		}
		if t.SaveEvery > 0 && t.step > 0 && t.step%t.SaveEvery == 0 {
			if err := t.save(); err != nil {
				return err
			}
		}
		if t.MaxSteps >= 0 && t.step >= t.MaxSteps {
			return nil
		}
		m, timing, err := t.Step(ctx)
		if err != nil {
			return fmt.Errorf("step %d: %w", m.Step, err)
		}
		if err := t.conclude(m, timing); err != nil {
			return fmt.Errorf("step %d: %w", m.Step, err)
		}
	}
}

// Step is one GRPO update on problems of the pool.
func (t *Trainer) Step(ctx context.Context) (Metrics, Timing, error) {
	return t.stepOn(ctx, nil, t.Iterations)
}

// stepOn is one GRPO update: each stanza turns one typed value into the next. A step that fails leaves
// the pool where it was.
func (t *Trainer) stepOn(ctx context.Context, subset []data.Problem, iterations int) (m Metrics, timing Timing, err error) {
	watch, begun := startWatch(), time.Now()
	m = Metrics{Step: t.step + 1, Iterations: iterations, LearningRate: t.LearningRate * t.Schedule.Factor(t.step+1)}
	undo := t.bookmark()
	defer func() {
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()

	// Problem -> Group. G completions each, every token with the log-probability it was drawn at, every
	// completion with its score. A wrong program is a score; a broken sandbox is an error.
	d, err := t.draft(ctx, subset, &timing)
	if err != nil {
		return m, timing, err
	}
	m.addDraft(d, t.Adam.Steps())

	// Group -> Datum. A group that agrees with itself teaches nothing.
	var datums []model.Datum
	for _, g := range d.groups {
		g.setAdvantages(t.Advantage)
		m.addGroup(g)
		if scored, correct := g.counts(); scored > 0 {
			t.Problems.Observe(g.Problem.ID, correct, scored)
		}
		if !g.Degenerate() {
			datums = append(datums, g.Datums()...)
		}
	}
	m.finish()
	m.Datums = len(datums)

	// Datum -> Gradient -> Update. No contrast anywhere: no gradient, no update.
	watch.lap()
	if len(datums) > 0 {
		if err := t.update(ctx, datums, iterations, &m); err != nil {
			return m, timing, err
		}
	}
	t.step++
	undo = func() error { return nil } // from here on the step is done, even where it cannot be written down
	if m.Updated {
		if m.Shift, err = t.shift(context.WithoutCancel(ctx), datums); err != nil {
			return m, timing, err
		}
		if !finite(m.Shift.KL2) || !finite(m.OnPolicy) {
			return m, timing, badinput.Errorf("the update left log-probabilities that are not finite; lower learning_rate, which is %g now, and go on from the last checkpoint", m.LearningRate)
		}
	}
	if m.Trained, err = t.Policy.Hash(); err != nil {
		return m, timing, err
	}
	timing.Train = watch.lap()
	timing.finish(&m, d, time.Since(begun))
	return m, timing, t.recordGroups(d.groups)
}

// draft gives the draft of this step with all its scores, and where steps are sampled ahead, has the one
// of the next step drawn before it waits for them.
func (t *Trainer) draft(ctx context.Context, subset []data.Problem, timing *Timing) (d *draft, err error) {
	early := t.ahead != nil && subset == nil
	if early {
		d = t.ahead
	} else if d, err = t.draw(ctx, t.step+1, subset, timing); err != nil {
		return nil, err
	}
	if subset == nil {
		t.ahead = nil
		if t.SampleAhead && t.step+1 != t.MaxSteps {
			t.ahead, err = t.draw(ctx, t.step+2, nil, timing)
		}
	}
	if err == nil {
		err = t.await(ctx, d.scores, timing)
	}
	if err != nil && !early { // a draft that was there before is kept for the next try
		err = errors.Join(err, d.scores.abandon())
	}
	return d, err
}

// bookmark remembers where the pool stands and what is sampled ahead; undo goes back there.
func (t *Trainer) bookmark() (undo func() error) {
	cursor, ahead := t.Problems.Cursor(), t.ahead
	return func() error {
		var err error
		if t.ahead != nil && t.ahead != ahead {
			err = t.ahead.scores.abandon()
		}
		t.ahead = ahead
		_, rerr := t.Problems.Restore(cursor)
		return errors.Join(err, rerr)
	}
}

// update takes the optimizer's steps on the datums.
func (t *Trainer) update(ctx context.Context, datums []model.Datum, iterations int, m *Metrics) error {
	t.Watcher.Phase("train", len(datums)*iterations)
	t.Policy.Progress = t.Watcher.Advance
	for i := range iterations {
		t.Adam.ZeroGrad()
		stats, err := t.Policy.Accumulate(ctx, datums, t.Objective)
		if err != nil {
			return fmt.Errorf("train: %w", err)
		}
		if i == 0 {
			m.OnPolicy = stats.MaxDiff
			if t.Deterministic && m.Staleness == 0 && m.OnPolicy != 0 {
				return fmt.Errorf("sampler and trainer disagree by %g about a log-probability: they do not run the same policy", m.OnPolicy)
			}
		}
		u, err := t.Adam.Step(m.LearningRate)
		var bad *optim.NonFiniteError
		if errors.As(err, &bad) {
			return t.reportNonFinite(ctx, datums, bad)
		}
		if err != nil {
			return fmt.Errorf("update: %w", err)
		}
		t.Policy.Publish()
		m.Stats, m.GradNorm, m.Updated = stats, u.GradNorm, true
		ctx = context.WithoutCancel(ctx) // a step that has begun to change the policy is ended
	}
	return nil
}

// conclude writes a step down, judges it and tells of it.
func (t *Trainer) conclude(m Metrics, timing Timing) error {
	advice := t.judge.advise(m, timing)
	if t.record != nil {
		if err := t.record.step(m, timing, advice); err != nil {
			return fmt.Errorf("record: %w", err)
		}
	}
	t.Watcher.StepDone(m, timing, advice)
	for _, a := range advice {
		if a.Fatal {
			return fmt.Errorf("%s: %s", a.Finding, a.Try)
		}
	}
	return nil
}
