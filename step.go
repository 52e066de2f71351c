package grpo

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/meter"
	"github.com/seed-7879b91d/grpo/model"
)

// StepOptions override settings for one call of Step; the zero value changes nothing.
type StepOptions struct {
	Iterations int // updates on the same completions; 0: as configured
}

// plan has the numbers of a step that are fixed before it begins.
type plan struct {
	step       int // 1 for the first
	iterations int // updates on the same completions
	rate       float64
	updates    int // optimizer updates before the step
}

// Step is one step of GRPO, on a subset of problems, or with nil on the next ones of the pool: each stanza turns one typed value into
// the next. It is recorded in the run directory, if there is one. A step that fails leaves the pool where it was.
func (t *Trainer) Step(ctx context.Context, subset []data.Problem, o StepOptions) (m Metrics, err error) {
	if o.Iterations < 0 || subset != nil && len(subset) == 0 {
		return m, badinput.Errorf("a step of %d problems and %d iterations; expected a subset with problems or nil, "+
			"and iterations of 0 (as configured) or more", len(subset), o.Iterations)
	}
	if err := t.begin(ctx); err != nil {
		return m, err
	}
	watch, plan := meter.Start(), t.plan(o)
	defer t.undoOnFailure(plan, &err)()

	// Problems -> prompts -> rollouts. G completions of each problem, every token with its log-probability under the
	// policy that drew it. Scoring has begun in the background.
	batch, spent, err := t.rollouts(ctx, subset)
	if err != nil {
		return m, err
	}
	// Rollouts -> scored. A wrong program is a score; a broken sandbox is an error.
	watch.Lap()
	scored, err := t.awaitScores(ctx, batch)
	if err != nil {
		return m, err
	}
	spent.score += watch.Lap()
	// Scored -> groups. Rewards become advantages, relative to the other completions of the same problem.
	groups, err := t.groups(ctx, plan, batch.prompts, scored)
	if err != nil {
		return m, err
	}
	// Groups -> datums. One for each completion, masked where the policy did not sample. A group with equal rewards has none.
	datums := datums(groups)
	// Datums -> gradients -> update. Without datums there is no gradient, and no update.
	watch.Lap()
	update, err := t.update(ctx, groups, datums, plan, plan.updates-batch.updates)
	if err != nil {
		return m, err
	}
	spent.train = watch.Lap()
	// Update -> metrics, recorded.
	t.step++
	m = metrics(plan, batch, groups, datums, update)
	m.Components, m.Autopilot = t.judging.Components(scores(groups)), t.pilot.Overrides()
	spent.rewardFile = t.judging.CustomSeconds()
	return m, t.conclude(m, timing(m, batch, spent, watch.Total()), groups)
}

// plan fixes the numbers of the next step.
func (t *Trainer) plan(o StepOptions) plan {
	return plan{step: t.step + 1, iterations: cmp.Or(o.Iterations, t.cfg.NumIterations), rate: t.learner.Rate(t.step + 1),
		updates: t.learner.Adam.Steps()}
}

// groups computes advantages, and reports the groups to the pool (for difficulty sampling) and to the caller (WithGroups).
func (t *Trainer) groups(ctx context.Context, p plan, prompts []Prompt, scored []Scored) ([]Group, error) {
	groups, err := t.compareLocked(ctx, gather(prompts, scored))
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		scored, correct := g.countScored()
		t.pool.Observe(g.Problem.ID, correct, scored)
	}
	return groups, t.custom.groups(p.step, groups)
}

// update trains the policy on the datums, measures how far that moved it, and hashes the parameters that came out.
// staleness is the number of updates since the datums were sampled; 0: on-policy.
func (t *Trainer) update(ctx context.Context, groups []Group, datums []model.Datum, p plan, staleness int) (Update, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	t.watcher.Phase("train", len(datums)*t.learner.Passes(p.iterations))
	u, err := t.learner.Update(ctx, datums, p.iterations, p.rate, staleness > 0)
	if err != nil {
		return u, t.learner.Explain(err, t.cfg)
	}
	if u.Updated {
		ctx = context.WithoutCancel(ctx) // the weights have changed: the step must be completed
	}
	if err := t.reportNonFinite(ctx, p.step, u, datums, groups); err != nil {
		return u, err
	}
	if u.Updated {
		if u.Drift, err = t.learner.Drift(ctx, datums); err != nil {
			return u, err
		}
		if err = t.learner.CheckUpdate(u, t.cfg); err != nil {
			return u, err
		}
	}
	u.After, err = t.policy.Hash()
	return u, err
}

// undoOnFailure remembers the pool's cursor and the batch that was sampled ahead, and returns a function to defer, which
// restores both if the step fails, or panics in a function of the caller. If the step has already changed the weights, they
// belong to no step: t.broken then keeps the trainer from training on or saving them.
func (t *Trainer) undoOnFailure(p plan, err *error) func() {
	cursor, ahead := t.pool.Cursor(), t.ahead
	return func() {
		if *err != nil {
			*err = fmt.Errorf("step %d: %w", p.step, *err)
		}
		if t.step == p.step {
			return // the step is done, even where it cannot be written down
		}
		if t.ahead != nil && t.ahead != ahead {
			*err = errors.Join(*err, t.ahead.abandon())
		}
		t.ahead = ahead
		_, rerr := t.pool.Restore(cursor)
		*err = errors.Join(*err, rerr)
		if t.learner.Adam.Steps() != p.updates {
			t.broken = cmp.Or(*err, fmt.Errorf("step %d: a function of the program's own panicked", p.step))
		}
	}
}
