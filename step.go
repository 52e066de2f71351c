package grpo

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
)

// StepOptions are what one call of Step does differently; the zero value changes nothing.
type StepOptions struct {
	Iterations int // updates on the same completions; 0: as configured
}

// Step is one update by GRPO, on a subset of problems, or on the next of the pool where it is nil: each stanza turns
// one typed value into the next. Where there is a run directory the step is recorded. One that fails leaves the
// pool where it was.
func (t *Trainer) Step(ctx context.Context, subset []data.Problem, o StepOptions) (m Metrics, err error) {
	if err := t.begin(ctx); err != nil {
		return m, err
	}
	watch := startWatch()
	m.Step = t.step + 1
	defer t.undoOnFailure(&err, m.Step)()

	// Problems -> prompts -> rollouts -> scored. G completions of each problem, every token with the log-probability
	// that it was drawn at. A wrong program is a score; a broken sandbox is an error.
	batch, spent, err := t.rollouts(ctx, subset)
	if err != nil {
		return m, err
	}
	// Scored -> groups. Completions of one problem are compared with each other: rewards become advantages.
	groups, err := t.groups(batch)
	if err != nil {
		return m, err
	}
	// Groups -> datums. One for each completion, masked where the policy did not write. A group that agrees with
	// itself teaches nothing.
	datums := datums(groups)
	m = measure(m, batch, t.learner.adam.Steps(), groups, datums)

	// Datums -> gradients -> update. No contrast anywhere: no gradient, no update.
	watch.lap()
	t.watcher.Phase("train", len(datums)*cmp.Or(o.Iterations, t.cfg.NumIterations))
	rate := t.learner.learningRate(m.Step)
	m.Update, err = t.learner.update(ctx, datums, cmp.Or(o.Iterations, t.cfg.NumIterations), rate, m.Staleness > 0)
	if err != nil {
		return m, err
	}
	if err := t.reportNonFinite(ctx, m, datums); err != nil {
		return m, err
	}
	// Update -> metrics. What moved, how far, and the name of what came out.
	if m, err = t.inspect(ctx, m, datums); err != nil {
		return m, err
	}
	t.step++
	return m, t.conclude(m, timing(m, batch, spent, watch.lap(), watch.total()), groups)
}

// groups compares the completions of each problem, and lets the pool and the caller see what came of it.
func (t *Trainer) groups(b *rolloutBatch) ([]Group, error) {
	groups := compare(gather(b.prompts, b.scored), t.advantage)
	for _, g := range groups {
		if scored, correct := g.scored(); scored > 0 {
			t.pool.Observe(g.Problem.ID, correct, scored)
		}
	}
	return groups, t.onGroups(t.step+1, groups)
}

// inspect measures how far an update moved the policy and names the parameters that came out.
func (t *Trainer) inspect(ctx context.Context, m Metrics, datums []model.Datum) (_ Metrics, err error) {
	if m.Updated {
		if m.Drift, err = t.learner.drift(context.WithoutCancel(ctx), datums); err != nil {
			return m, err
		}
		if !finite(m.Drift.KL2) || !finite(m.OnPolicy) {
			return m, badinput.Errorf("the update left log-probabilities that are not finite; "+
				"lower learning_rate, which is %g now, and go on from the last checkpoint", m.LearningRate)
		}
	}
	m.Trained, err = t.policy.Hash()
	return m, err
}

// undoOnFailure gives what puts the pool and the step that was sampled ahead back where they are now, should the
// step fail before it is done. A policy that it had begun to change by then is of no step any more: nothing is
// trained on it or saved of it.
func (t *Trainer) undoOnFailure(err *error, step int) func() {
	cursor, ahead, updates := t.pool.Cursor(), t.ahead, t.learner.adam.Steps()
	return func() {
		if *err == nil {
			return
		}
		*err = fmt.Errorf("step %d: %w", step, *err)
		if t.step >= step {
			return // the step is done, even where it cannot be written down
		}
		if t.ahead != nil && t.ahead != ahead {
			*err = errors.Join(*err, t.ahead.abandon())
		}
		t.ahead = ahead
		_, rerr := t.pool.Restore(cursor)
		*err = errors.Join(*err, rerr)
		if t.learner.adam.Steps() != updates {
			t.broken = *err
		}
	}
}
