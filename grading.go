package grpo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed-7879b91d/grpo/reward"
)

// grading has rollouts scored while others are still being sampled. Each is scored by a goroutine of its own;
// how many programs run at once is the grader's business.
type grading struct {
	grader   reward.Grader
	late     bool // nothing is scored before the last rollout is there
	rollouts []Rollout
	held     []reward.Completion // of the rollouts, while late
	running  sync.WaitGroup

	ctx    context.Context // of the graders; its cause is why there are no more scores
	cancel context.CancelCauseFunc
	scored chan Scored // has room for all of them
	done   []Scored
}

var errAbandoned = errors.New("nobody asks for the scores any more")

// newGrading expects total rollouts. The context's values count, its end does not: a step that samples ahead
// returns before its scores are there.
func newGrading(ctx context.Context, grader reward.Grader, total int, late bool) *grading {
	g := &grading{grader: grader, late: late, scored: make(chan Scored, total)}
	g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return g
}

// add hands over a rollout, as the grader sees it.
func (g *grading) add(r Rollout, c reward.Completion) {
	g.rollouts = append(g.rollouts, r)
	if g.late {
		g.held = append(g.held, c)
		return
	}
	g.score(r, c)
}

// close says that all rollouts are there.
func (g *grading) close() {
	for i, c := range g.held {
		g.score(g.rollouts[i], c)
	}
	g.held = nil
}

func (g *grading) score(r Rollout, c reward.Completion) {
	g.running.Go(func() {
		score, err := g.grader.Grade(g.ctx, c)
		if err != nil {
			g.cancel(err) // the first one counts
			return
		}
		g.scored <- Scored{r, score}
	})
}

// missing is how many scores nobody has waited for yet.
func (g *grading) missing() int { return len(g.rollouts) - len(g.done) }

// wait gives the scored rollouts once all of them are, and tells of each. Called again after the context
// ended, it goes on; after the grader failed, it fails again.
func (g *grading) wait(ctx context.Context, each func()) ([]Scored, error) {
	for g.missing() > 0 {
		select {
		case s := <-g.scored:
			g.done = append(g.done, s)
			each()
		case <-g.ctx.Done():
			return nil, fmt.Errorf("score: %w", context.Cause(g.ctx))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	g.cancel(nil)
	return g.done, nil
}

// abandon gives up the scores that are missing, and says what went wrong with the grader before.
func (g *grading) abandon() error {
	g.cancel(errAbandoned)
	g.running.Wait()
	if cause := context.Cause(g.ctx); cause != errAbandoned && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
