package grpo

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
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

	MaxSteps  int // −1: until interrupted
	SaveEvery int // 0: at the end only
	KeepLast  int // checkpoints; 0: all
	KeepBest  int // checkpoints of the best evaluations, which stay besides
	// Deterministic ends a run whose sampler and trainer disagree.
	Deterministic bool
	BaseModel     string
	EvalEvery     int // −1: never
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

// Watcher is told how a run goes on. Calls come from the goroutine that trains.
type Watcher interface {
	// Phase says that something of so many units begins: "sample" counts tokens, "score" completions,
	// "train" and "evaluate" sequences.
	Phase(name string, units int)
	Advance(units int)
	StepDone(m Metrics, t Timing, advice []Advice)
	Evaluated(e Evaluation)
	Saved(dir string)
	// Skipped says why a step made no update although it had something to learn.
	Skipped(why string)
}

// Trainer runs GRPO: it holds the policy, the problems and the optimizer, and takes steps.
type Trainer struct {
	Rules
	Parts
	record      *Record // nil: nothing is written
	step        int     // steps done
	judge       adviser
	first, last *Evaluation

	train         []data.Problem // what Problems deals
	longestPrompt int
}

// Run trains to MaxSteps, evaluating and saving when due. A failed step is not saved: the last good
// checkpoint stands.
func (t *Trainer) Run(ctx context.Context) error {
	if t.step == 0 {
		if err := t.evaluateIfDue(ctx); err != nil {
			return fmt.Errorf("before step 1: evaluate: %w", err)
		}
	}
	for t.MaxSteps < 0 || t.step < t.MaxSteps {
		m, timing, err := t.Step(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = errors.Join(ctx.Err(), t.save())
			}
			return fmt.Errorf("step %d: %w", t.step+1, err)
		}
		if err := t.conclude(m, timing); err != nil {
			return fmt.Errorf("step %d: record: %w", t.step, err)
		}
		if err := t.evaluateIfDue(ctx); err != nil {
			return fmt.Errorf("step %d: evaluate: %w", t.step, err)
		}
		if t.SaveEvery > 0 && t.step%t.SaveEvery == 0 {
			if err := t.save(); err != nil {
				return fmt.Errorf("step %d: save: %w", t.step, err)
			}
		}
	}
	return t.save()
}

// Step is one GRPO update: each stanza turns one typed value into the next.
func (t *Trainer) Step(ctx context.Context) (m Metrics, timing Timing, err error) {
	watch := startWatch()
	m = Metrics{Step: t.step + 1, LearningRate: t.LearningRate * t.Schedule.Factor(t.step+1)}
	if m.Adapter, err = t.Policy.AdapterHash(); err != nil {
		return m, timing, err
	}

	// Problem -> Group. G completions each, every token with the log-probability it was drawn at, every
	// completion with its score. A wrong program is a score; a broken sandbox is an error.
	cursor := t.Problems.Cursor()
	groups, err := t.rollOut(ctx, &m, &timing)
	if err != nil {
		if _, rerr := t.Problems.Restore(cursor); rerr != nil {
			err = errors.Join(err, rerr)
		}
		return m, timing, err
	}

	// Group -> Datum. A group that agrees with itself teaches nothing.
	var datums []model.Datum
	excluded := 0
	for _, g := range groups {
		m.addGroup(g)
		scored, correct := g.counts()
		excluded += len(g.Scores) - scored
		if scored > 0 {
			t.Problems.Observe(g.Problem.ID, correct, scored)
		}
		if !g.Degenerate() {
			datums = append(datums, g.Datums()...)
		}
	}
	m.finish(excluded)
	m.Datums, m.Epoch = len(datums), t.Problems.Epoch()

	// Datum -> Gradient -> Update. No contrast anywhere: no gradient, no update.
	watch.lap()
	if len(datums) > 0 {
		if err := t.update(ctx, datums, &m); err != nil {
			return m, timing, err
		}
	}
	timing.Train = watch.lap()
	timing.finish(&m)
	t.step++
	return m, timing, t.recordGroups(groups)
}

// update takes the optimizer's steps on the datums.
func (t *Trainer) update(ctx context.Context, datums []model.Datum, m *Metrics) error {
	t.Watcher.Phase("train", len(datums)*t.Iterations)
	for i := range t.Iterations {
		t.Adam.ZeroGrad()
		stats, err := t.Policy.Accumulate(ctx, datums, t.Objective)
		if err != nil {
			return fmt.Errorf("train: %w", err)
		}
		t.Watcher.Advance(len(datums))
		if i == 0 {
			m.OnPolicy = stats.MaxDiff
			if t.Deterministic && m.OnPolicy != 0 {
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
	}
	return nil
}

// conclude writes a step down, judges it and tells of it.
func (t *Trainer) conclude(m Metrics, timing Timing) error {
	advice := t.judge.advise(m, timing)
	if t.record != nil {
		if err := t.record.step(m, timing, advice); err != nil {
			return err
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
