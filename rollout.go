package grpo

import (
	"context"
	"errors"

	"github.com/seed-7879b91d/grpo/data"
)

// rolloutBatch is what a step learns from: its rollouts, whose scores may still be coming in.
type rolloutBatch struct {
	prompts  []Prompt
	scored   []Scored // all of them once wait has returned
	rounds   []*grading
	policy   string // the SHA-256 of the parameters that it was drawn with
	updates  int    // how many updates these had behind them
	refilled int    // prompts beyond the step's own
	epoch    int
	seconds  float64 // that drawing took; 0 for one from a checkpoint
}

// spent is where time went before a step trained, in seconds.
type spent struct{ sample, score float64 }

func (s spent) and(more spent) spent { return spent{s.sample + more.sample, s.score + more.score} }

// rollouts gives the batch of this step with all its scores. With pipeline=full it was drawn during the step
// before, and that of the next step is drawn here, before the scores are waited for.
func (t *Trainer) rollouts(ctx context.Context, subset []data.Problem) (b *rolloutBatch, all spent, err error) {
	early := t.ahead != nil && subset == nil
	if early {
		b = t.ahead
	} else if b, all, err = t.draw(ctx, t.step+1, subset); err != nil {
		return nil, all, err
	}
	if subset == nil {
		t.ahead = nil
		if t.cfg.Pipeline == "full" && t.step+1 != t.cfg.MaxSteps {
			var ahead spent
			t.ahead, ahead, err = t.draw(ctx, t.step+2, nil)
			all = all.and(ahead)
		}
	}
	if err == nil {
		var wait spent
		wait, err = t.waitFor(ctx, b)
		all = all.and(wait)
	}
	if err != nil && !early { // a batch that was there before is kept for the next try
		err = errors.Join(err, b.abandon())
	}
	return b, all, err
}

// draw samples the batch of a step, on a subset or on the next problems of the pool: P of them, and with refill=true
// as many again while too few of their groups teach something.
func (t *Trainer) draw(ctx context.Context, step int, subset []data.Problem) (b *rolloutBatch, all spent, err error) {
	b = &rolloutBatch{updates: t.learner.adam.Steps()}
	if b.policy, err = t.policy.Hash(); err != nil {
		return nil, all, err
	}
	for enough := false; !enough; {
		problems := subset
		if problems == nil {
			problems = t.pool.Take(t.cfg.PromptsPerStep)
		}
		err := t.drawRound(ctx, step, problems, b)
		if enough = subset != nil || !t.cfg.Refill || len(b.rounds) > t.cfg.MaxRefills; err == nil && !enough {
			var wait spent
			wait, err = t.waitFor(ctx, b)
			all = all.and(wait)
			enough = err == nil && t.teaching(b) >= t.cfg.PromptsPerStep
		}
		if err != nil {
			return nil, all, errors.Join(err, b.abandon())
		}
	}
	b.epoch = t.pool.Epoch()
	return b, all.and(spent{sample: b.seconds}), nil
}

// drawRound adds the rollouts of further problems to a batch.
func (t *Trainer) drawRound(ctx context.Context, step int, problems []data.Problem, b *rolloutBatch) error {
	prompts, err := t.policy.prompts(problems, len(b.prompts))
	if err != nil {
		return err
	}
	watch := startWatch()
	g, err := t.sample(ctx, prompts, step, t.cfg.CompletionsPerPrompt, t.sampling.train)
	if err != nil {
		return err
	}
	b.seconds += watch.lap()
	if len(b.rounds) > 0 {
		b.refilled += len(prompts)
	}
	b.prompts, b.rounds = append(b.prompts, prompts...), append(b.rounds, g)
	return nil
}

// teaching counts the groups that teach something.
func (t *Trainer) teaching(b *rolloutBatch) (n int) {
	for _, g := range compare(gather(b.prompts, b.scored), t.advantage) {
		if !g.Degenerate() {
			n++
		}
	}
	return n
}

// waitFor waits until a batch has all its scores.
func (t *Trainer) waitFor(ctx context.Context, b *rolloutBatch) (spent, error) {
	watch := startWatch()
	var scored []Scored
	for _, g := range b.rounds {
		round, err := t.wait(ctx, g)
		if err != nil {
			return spent{score: watch.lap()}, err
		}
		scored = append(scored, round...)
	}
	b.scored = scored
	return spent{score: watch.lap()}, nil
}

// abandon gives up the scores that are missing, and says what went wrong with the grader before.
func (b *rolloutBatch) abandon() error {
	var errs []error
	for _, g := range b.rounds {
		errs = append(errs, g.abandon())
	}
	return errors.Join(errs...)
}
