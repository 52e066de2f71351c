package grpo

import (
	"context"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// saveAhead writes the rollouts that were sampled ahead for the next step, if any.
func (t *Trainer) saveAhead(path string) error {
	b := t.ahead
	if b == nil {
		return nil
	}
	s := rollouts.SampledAhead{Policy: b.policy, Updates: b.updates, Refilled: b.refilled, Epoch: b.epoch,
		Groups: make([]rollouts.SampledGroup, len(b.prompts))}
	for i, p := range b.prompts {
		s.Groups[i] = rollouts.SampledGroup{Problem: p.Problem.ID, Prompt: p.Tokens}
	}
	for _, round := range b.rounds {
		for _, r := range slices.SortedFunc(slices.Values(round.Items()), func(a, b Rollout) int { return a.Sample - b.Sample }) {
			g := &s.Groups[r.Group]
			g.Rollouts = append(g.Rollouts, sampler.Rollout{Request: r.Group, Sample: r.Sample, Tokens: r.Tokens,
				LogProbs: r.LogProbs, Finish: r.Finish})
			if r.Conversation != nil {
				g.Conversations = append(g.Conversations, rollouts.ScoredConversation{Score: r.Conversation.Score, Record: r.Conversation})
			}
		}
	}
	return atomicfile.WriteJSON(path, s)
}

// restoreAhead reads what saveAhead wrote and starts scoring it. It gives nil where there is no file, or where one of its
// problems is not in the pool any more.
func (t *Trainer) restoreAhead(path string) (*rolloutBatch, error) {
	s, err := rollouts.ReadSampledAhead(path, t.policy.Vocab, advice.TooMany, t.watcher.Warn)
	if s == nil || err != nil {
		return nil, err
	}
	b, drawn := &rolloutBatch{policy: s.Policy, updates: s.Updates, refilled: s.Refilled, epoch: s.Epoch}, []Rollout(nil)
	for i, g := range s.Groups {
		problem, known := t.pool.Problem(g.Problem)
		if !known { // the data changed, or the autopilot has since taken this problem to measure on
			return nil, nil
		}
		b.prompts = append(b.prompts, Prompt{Index: i, Problem: problem, Tokens: g.Prompt})
		for _, r := range g.Rollouts {
			drawn = append(drawn, t.rollout(i, r, g.Conversation(r.Sample)))
		}
	}
	b.rounds = []*grading{t.startScoring(b.prompts, drawn)}
	return b, nil
}

// startScoring starts scoring rollouts that are already sampled.
func (t *Trainer) startScoring(prompts []Prompt, rollouts []Rollout) *grading {
	g := reward.NewBatch[Rollout](context.Background(), t.judging.Grader, len(rollouts), false)
	samples := make([]int, len(prompts))
	for _, r := range rollouts {
		samples[r.Group] = max(samples[r.Group], r.Sample+1)
	}
	peers := make([]*reward.Peers, len(prompts))
	for i, n := range samples {
		peers[i] = reward.NewPeers(n)
	}
	for _, r := range rollouts {
		if r.Conversation != nil {
			g.Settle(r, r.Conversation.Score)
			continue
		}
		g.Add(r, completion(&prompts[r.Group], r, t.cfg.MaxTokens, peers[r.Group]))
	}
	g.Close()
	return g
}
