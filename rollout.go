package grpo

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// draft is what a step will learn from: every completion is drawn, scores may still be coming in.
type draft struct {
	groups   []*Group
	policy   string // the SHA-256 of the parameters that it was drawn with
	updates  int    // how many updates these had behind them
	refilled int    // groups beyond the step's own
	epoch    int
	seconds  float64 // that drawing took; 0 for one from a checkpoint
	scores   *scores
}

// draw gives the draft of a step: its P groups, and more while some teach nothing and refills are left. A
// subset that is given takes the place of the pool's.
func (t *Trainer) draw(ctx context.Context, step int, subset []data.Problem, timing *Timing) (*draft, error) {
	d := &draft{updates: t.Adam.Steps()}
	before := timing.Sample
	defer func() { d.epoch, d.seconds = t.Problems.Epoch(), timing.Sample-before }()
	var err error
	if d.policy, err = t.Policy.Hash(); err != nil {
		return nil, err
	}
	for round := 0; ; round++ {
		problems := subset
		if problems == nil {
			problems = t.Problems.Take(t.PromptsPerStep)
		}
		groups, err := t.render(problems)
		if err != nil {
			return nil, err
		}
		d.scores, err = t.sample(ctx, groups, t.requests(groups, step, len(d.groups)), timing)
		if err != nil {
			return nil, err
		}
		d.groups = append(d.groups, groups...)
		if round > 0 {
			d.refilled += len(groups)
		}
		if subset != nil || round == t.MaxRefills {
			return d, nil
		}
		if err := t.await(ctx, d.scores, timing); err != nil {
			return nil, errors.Join(err, d.scores.abandon())
		}
		if d.informative(t.Advantage) >= t.PromptsPerStep {
			return d, nil
		}
	}
}

// informative counts the groups that teach something.
func (d *draft) informative(kind AdvantageKind) int {
	n := 0
	for _, g := range d.groups {
		if g.setAdvantages(kind); !g.Degenerate() {
			n++
		}
	}
	return n
}

// render turns problems into groups that have nothing but a prompt.
func (t *Trainer) render(problems []data.Problem) ([]*Group, error) {
	groups := make([]*Group, len(problems))
	for i := range problems {
		messages, err := t.Wording.Messages(&problems[i])
		if err != nil {
			return nil, fmt.Errorf("problem %s: prompt: %w", problems[i].ID, err)
		}
		prompt, _, err := t.Renderer.Prompt(messages)
		if err != nil {
			return nil, fmt.Errorf("problem %s: render: %w", problems[i].ID, err)
		}
		groups[i] = &Group{Problem: problems[i], Prompt: prompt}
	}
	return groups, nil
}

// requests asks for the completions of a step's groups, of which the first is number first.
func (t *Trainer) requests(groups []*Group, step, first int) []sampler.Request {
	requests := make([]sampler.Request, len(groups))
	for i, g := range groups {
		requests[i] = sampler.Request{Prompt: g.Prompt, N: t.CompletionsPerPrompt, Params: t.Sampling,
			Key: sampler.Key{Seed: t.Seed, Step: step, Problem: first + i}}
	}
	return requests
}

// sample draws the completions. Each is scored as soon as it is there, or, with ScoreWhenDone, once all
// of them are; the scores that it gives come in meanwhile.
func (t *Trainer) sample(ctx context.Context, groups []*Group, requests []sampler.Request, timing *Timing) (*scores, error) {
	total := 0
	for i, g := range groups {
		n := requests[i].N
		g.Rollouts, g.Texts, g.Scores = make([]sampler.Rollout, n), make([]string, n), make([]reward.Score, n)
		total += n
	}
	watch := startWatch()
	t.Watcher.Phase("sample", total)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := newScores(ctx, groups, total, cancel)
	if !t.ScoreWhenDone {
		go s.run(t.Grader)
	}
	_, err := t.Engine.Sample(ctx, requests, sampler.Events{Done: func(r sampler.Rollout) {
		g := groups[r.Request]
		g.Rollouts[r.Sample] = r
		s.add(r, t.completed(g, r, requests[r.Request].Params.MaxTokens))
		t.Watcher.Advance(1, len(r.Tokens))
	}})
	close(s.finished)
	timing.Sample += watch.lap()
	if t.ScoreWhenDone {
		go s.run(t.Grader)
	}
	if err == nil {
		return s, nil
	}
	if serr := s.abandon(); serr != nil {
		return nil, fmt.Errorf("score: %w", serr) // which is what ended the sampling
	}
	return nil, fmt.Errorf("sample: %w", err)
}

// completed puts a completion of a group into words, for the grader.
func (t *Trainer) completed(g *Group, r sampler.Rollout, maxTokens int) reward.Completion {
	g.Texts[r.Sample] = t.Tokenizer.Text(r.Tokens)
	return reward.Completion{Problem: &g.Problem, Text: g.Texts[r.Sample], Truncated: r.Finish == sampler.Length,
		Tokens: len(r.Tokens), MaxTokens: maxTokens}
}

// await waits for the scores that are missing yet. Called again after the context ended, it goes on.
func (t *Trainer) await(ctx context.Context, s *scores, timing *Timing) error {
	watch := startWatch()
	defer func() { timing.Score += watch.lap() }()
	if s.failed != nil {
		return s.failed
	}
	if s.missing > 0 {
		t.Watcher.Phase("score", s.missing)
	}
	for s.missing > 0 {
		select {
		case err := <-s.arrived:
			if err != nil {
				s.failed = fmt.Errorf("score: %w", err)
				return s.failed
			}
			s.missing--
			t.Watcher.Advance(1, 0)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
