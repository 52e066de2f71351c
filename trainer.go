package grpo

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/recipe"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Trainer runs GRPO on one policy: it samples, scores, trains, and records the run. It is not safe for concurrent use.
type Trainer struct {
	Evaluator
	backend kernels.Backend
	pool    *data.Pool // of the problems to train on
	learner *learning.Learner
	custom  custom

	record      *record // nil: nothing is written
	ledger      *provenance.Ledger
	parts       provenance.Parts // fingerprints of the files that the run uses
	origin      origin
	start       int // the step that the run began after: above 0 in a fork
	evaluated   int // the first step that has no evaluation yet
	advisor     advice.Advisor
	pilot       *autopilot.Pilot // nil: none
	checks      []data.Problem   // kept aside for the autopilot to measure on
	completions int              // of a prompt; the autopilot may change it
	ahead       *rolloutBatch    // of the next step, if it is already sampled
	broken      error            // why a step was left half done; its weights belong to no step
	first, last *Evaluation      // of the problems that are held out now
}

// Open opens model, problems, sampler, sandbox and optimizer of a configuration, on a backend that the caller closes after Close;
// trainers that use one backend at the same time share a lock (WithTurn). A resumed run is restored from its checkpoint; see Resolve for
// its settings. Nothing is written before the first step, except that an empty run_dir makes a new directory under runs, named by the
// time, which Close removes if it is still empty. The watcher may be nil.
func Open(ctx context.Context, cfg *configs.Config, b kernels.Backend, w Watcher, options ...Option) (*Trainer, error) {
	precondition.NotNil("grpo.Open", "ctx", ctx, "cfg", cfg, "b", b)
	settings := *cfg // a run directory is filled in
	t := &Trainer{Evaluator: Evaluator{cfg: &settings, watcher: watcherOrNobody(w), learns: true}, backend: b, custom: collect(options)}
	if err := t.open(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Trainer) open(ctx context.Context) (err error) {
	if err := cmp.Or(t.cfg.Validate(), provenance.CheckMethod(t.cfg, "grpo")); err != nil {
		return err
	}
	if err := t.openRecord(); err != nil {
		return err
	}
	if t.origin.checkpoint == "" {
		t.trainedDir = t.cfg.Adapter
	}
	if err := t.Evaluator.open(ctx, t.backend, t.custom); err != nil {
		return err
	}
	if err := t.checkParts(); err != nil {
		return err
	}
	if t.cfg.Deterministic && t.judging.Sandbox.Kind == "fusion" {
		return badinput.Errorf("deterministic: a sandbox on another machine may judge differently; set sandbox=local, or deterministic=false")
	}
	var train []data.Problem
	if train, t.checks, err = autopilot.SplitProblems(t.cfg, t.HeldOut(), t.problems.Train); err != nil {
		return err
	}
	t.pool, err = data.NewPool(train, t.cfg.Seed, data.Difficulty{Patience: t.cfg.DifficultyPatience, Keep: t.cfg.DifficultyKeep})
	if err != nil {
		return err
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	own := recipe.Overrides{Advantage: t.custom.advantage, Loss: t.custom.loss}
	if t.learner, err = learning.Open(t.cfg, t.backend, t.policy.Policy, own); err != nil {
		return err
	}
	t.learner.Recipe.Warn = t.watcher.Warn
	t.policy.Progress = func(sequences, tokens int) {
		t.watcher.Advance(sequences, tokens)
		t.turn.Unlock()
		t.turn.Lock()
	}
	return t.resume()
}

// Run trains to max_steps, evaluating and saving when due. If ctx ends, or completions can no longer be scored, it saves the last
// complete step before it returns that error. After any other failure it saves nothing: the last good checkpoint stands.
func (t *Trainer) Run(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	err := t.run(ctx)
	if err == nil || errors.Is(err, ctx.Err()) {
		err = cmp.Or(t.save(), err)
	} else if t.step > 0 && judging.Unscorable(err) {
		err = errors.Join(err, t.save())
	}
	t.report(func(p *readers.Page) error { return p.Finish(err) })
	return err
}

func (t *Trainer) run(ctx context.Context) error {
	for {
		if err := t.steer(ctx); err != nil {
			return err
		}
		if err := t.evaluateIfDue(ctx); err != nil {
			return fmt.Errorf("step %d: %w", t.step, err)
		}
		if n := t.cfg.SaveEvery; n > 0 && t.step > 0 && t.step%n == 0 || t.pilot.IsAnchor(t.step) {
			if err := t.save(); err != nil {
				return err
			}
		}
		if t.cfg.MaxSteps >= 0 && t.step >= t.cfg.MaxSteps {
			return nil
		}
		if _, err := t.Step(ctx, nil, StepOptions{}); err != nil {
			if why := learning.Divergence(err); why != nil && t.pilot.HandleBroken(why) {
				continue
			}
			return err
		}
		if t.ledger != nil {
			if err := t.ledger.RecordHash(t.watcher.Warn); err != nil {
				return err
			}
		}
	}
}

// Close releases everything that Open opened, but for the backend.
func (t *Trainer) Close() error {
	var err error
	if t.ahead != nil {
		err = t.ahead.abandon()
		t.ahead = nil
	}
	return errors.Join(err, t.Evaluator.Close())
}

// StepsDone is the number of steps that the policy was trained for, those of a forked run included.
func (t *Trainer) StepsDone() int { return t.step }

// ModelDir is the directory of a model, named as in the setting model: tiny, which is embedded in the program, a
// directory, or a name on the Hub, from which it is downloaded.
func ModelDir(ctx context.Context, name string) (string, error) { return sources.ModelDir(ctx, name) }

// Pool deals the problems to train on.
func (t *Trainer) Pool() *data.Pool { return t.pool }

// Policy is the model that is trained.
func (t *Trainer) Policy() *model.Policy { return t.policy.Policy }

// RunDir is the run directory, "" for an unrecorded run.
func (t *Trainer) RunDir() string {
	if t.record == nil {
		return ""
	}
	return t.cfg.RunDir
}

// Evaluations are the first evaluation on the current held-out problems and the last one, nil if there is none.
func (t *Trainer) Evaluations() (first, last *Evaluation) { return t.first, t.last }
