package grpo

import (
	"context"
	"errors"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/meter"
)

// rolloutBatch has the rollouts of a step. Their scores may still be coming in.
type rolloutBatch struct {
	prompts  []Prompt
	rounds   []*grading // more than one with refill=true
	early    bool       // sampled during the step before
	policy   string     // the SHA-256 of the parameters that sampled it
	updates  int        // optimizer updates behind these parameters
	refilled int        // prompts that refill=true added
	epoch    int
	seconds  float64 // of sampling; 0 for a batch from a checkpoint
	drafted  int     // tokens accepted from speculative drafts
}

// phaseTimes is the time of a step by phase, in seconds.
type phaseTimes struct{ sample, score, train, rewardFile float64 }

// rollouts returns the batch of this step. With pipeline=full it was sampled during the step before, and the batch of the
// next step is sampled here, while the grader works on this one.
func (t *Trainer) rollouts(ctx context.Context, subset []data.Problem) (b *rolloutBatch, s phaseTimes, err error) {
	if subset != nil {
		return t.draw(ctx, t.step+1, subset)
	}
	if b, t.ahead = t.ahead, nil; b != nil {
		b.early = true
		t.scoreAgain(b)
	} else if b, s, err = t.draw(ctx, t.step+1, nil); err != nil {
		return nil, s, err
	}
	if t.cfg.Pipeline == "full" && t.step+1 != t.cfg.MaxSteps {
		var next phaseTimes
		if t.ahead, next, err = t.draw(ctx, t.step+2, nil); err != nil {
			return nil, s, t.giveUp(b, err)
		}
		s.sample, s.score = s.sample+next.sample, s.score+next.score
	}
	return b, s, nil
}

// draw samples the batch of a step, on a subset or on the next P problems of the pool. With refill=true it takes P more,
// and again, while fewer than P groups give a gradient.
func (t *Trainer) draw(ctx context.Context, step int, subset []data.Problem) (b *rolloutBatch, s phaseTimes, err error) {
	b = &rolloutBatch{updates: t.learner.Adam.Steps()}
	t.turn.Lock()
	b.policy, err = t.policy.Hash()
	t.turn.Unlock()
	if err != nil {
		return nil, s, err
	}
	watch := meter.Start()
	for enough := false; !enough; {
		problems := subset
		if problems == nil {
			problems = t.pool.Take(t.cfg.PromptsPerStep)
		}
		if err := t.drawRound(ctx, step, problems, b); err != nil {
			return nil, s, t.giveUp(b, err)
		}
		watch.Lap()
		if enough = subset != nil || !t.cfg.Refill || len(b.rounds) > t.cfg.MaxRefills; !enough {
			scored, err := t.awaitScores(ctx, b)
			if err != nil {
				return nil, s, err
			}
			n, err := t.countTeaching(ctx, b.prompts, scored)
			if err != nil {
				return nil, s, err
			}
			enough = n >= t.cfg.PromptsPerStep
			s.score += watch.Lap()
		}
	}
	b.epoch, s.sample = t.pool.Epoch(), b.seconds
	return b, s, nil
}

// drawRound samples further problems into a batch.
func (t *Trainer) drawRound(ctx context.Context, step int, problems []data.Problem, b *rolloutBatch) error {
	prompts, err := t.policy.prompts(ctx, problems, len(b.prompts))
	if err != nil {
		return err
	}
	watch, accepted := meter.Start(), t.sampling.engine.Accepted
	g, err := t.sample(ctx, prompts, step, t.completions, t.sampling.train)
	if err != nil {
		return err
	}
	b.seconds, b.drafted = b.seconds+watch.Lap(), b.drafted+t.sampling.engine.Accepted-accepted
	if len(b.rounds) > 0 {
		b.refilled += len(prompts)
	}
	b.prompts, b.rounds = append(b.prompts, prompts...), append(b.rounds, g)
	return nil
}

// countTeaching counts the groups that give a gradient.
func (t *Trainer) countTeaching(ctx context.Context, prompts []Prompt, scored []Scored) (n int, err error) {
	groups, err := t.compareLocked(ctx, gather(prompts, scored))
	for _, g := range groups {
		if !g.Degenerate() {
			n++
		}
	}
	return n, err
}

// awaitScores waits for all scores of a batch.
func (t *Trainer) awaitScores(ctx context.Context, b *rolloutBatch) (scored []Scored, err error) {
	for _, g := range b.rounds {
		round, err := t.wait(ctx, g)
		if err != nil {
			return nil, t.giveUp(b, err)
		}
		scored = append(scored, round...)
	}
	return scored, nil
}

// scoreAgain restarts the scoring of rounds whose grader failed in an earlier attempt at the step.
func (t *Trainer) scoreAgain(b *rolloutBatch) {
	for i, g := range b.rounds {
		if g.Failed() {
			b.rounds[i] = t.startScoring(b.prompts, g.Items())
		}
	}
}

// giveUp abandons a batch after an error. A batch that was sampled ahead is kept for the next attempt at the step.
func (t *Trainer) giveUp(b *rolloutBatch, err error) error {
	if b.early {
		return err
	}
	return errors.Join(err, b.abandon())
}

// abandon cancels the scoring that is under way. Its error is a failure of the grader that nobody has seen yet.
func (b *rolloutBatch) abandon() error {
	var errs []error
	for _, g := range b.rounds {
		errs = append(errs, g.Abandon())
	}
	return errors.Join(errs...)
}
