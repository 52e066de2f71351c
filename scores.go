package grpo

import (
	"context"
	"errors"

	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// scores are the scores of groups on their way in. The completions go to the grader in the order in
// which they end, and their scores come back in that order.
type scores struct {
	groups   []*Group
	finished chan reward.Completion
	order    chan sampler.Rollout // of the finished
	arrived  chan error           // nil for each score, or why there are no more
	missing  int
	failed   error // why no more will come

	ctx    context.Context
	cancel context.CancelFunc
	broken context.CancelCauseFunc // ends the sampling
	done   chan struct{}
}

// newScores expects total scores. The context's values count, its end does not: a step that samples
// ahead returns before its scores are there. broken is told of a grader that fails.
func newScores(ctx context.Context, groups []*Group, total int, broken context.CancelCauseFunc) *scores {
	s := &scores{groups: groups, finished: make(chan reward.Completion, total), order: make(chan sampler.Rollout, total),
		arrived: make(chan error, total+1), missing: total, broken: broken, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// add hands a completion to the grader.
func (s *scores) add(r sampler.Rollout, c reward.Completion) {
	s.order <- r
	s.finished <- c
}

// run scores until every completion has its score or the grader fails.
func (s *scores) run(g reward.Grader) {
	defer close(s.done)
	defer s.cancel()
	for graded, err := range reward.Stream(s.ctx, g, s.finished, cap(s.finished)) {
		if err != nil {
			s.arrived <- err
			s.broken(err)
			return
		}
		r := <-s.order
		s.groups[r.Request].Scores[r.Sample] = graded.Score
		s.arrived <- nil
	}
}

// abandon gives up the scores that are missing, and says what went wrong with the grader before.
func (s *scores) abandon() error {
	s.cancel()
	<-s.done
	for {
		select {
		case err := <-s.arrived:
			if err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
		default:
			return nil
		}
	}
}
