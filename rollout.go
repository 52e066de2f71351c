package grpo

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// rollOut gives the groups of a step: P of them, and more while some teach nothing and refills are
// left.
func (t *Trainer) rollOut(ctx context.Context, m *Metrics, timing *Timing) ([]*Group, error) {
	var all []*Group
	for round := 0; ; round++ {
		prompts, err := t.render(t.Problems.Take(t.PromptsPerStep))
		if err != nil {
			return nil, err
		}
		if err := t.sample(ctx, prompts, t.requests(prompts, len(all)), timing); err != nil {
			return nil, err
		}
		informative := 0
		all = append(all, prompts...)
		for _, g := range all {
			g.setAdvantages(t.Advantage)
			if !g.Degenerate() {
				informative++
			}
		}
		if round > 0 {
			m.Refilled += len(prompts)
		}
		if informative >= t.PromptsPerStep || round >= t.MaxRefills {
			return all, nil
		}
	}
}

// render turns problems into groups that have nothing but a prompt.
func (t *Trainer) render(problems []data.Problem) ([]*Group, error) {
	groups := make([]*Group, len(problems))
	for i := range problems {
		messages, err := t.Wording.Messages(&problems[i])
		if err != nil {
			return nil, fmt.Errorf("problem %s: prompt: %w", problems[i].ID, err)
		}
		ids, _, err := t.Renderer.Prompt(messages)
		if err != nil {
			return nil, fmt.Errorf("problem %s: render: %w", problems[i].ID, err)
		}
		groups[i] = &Group{Problem: problems[i], Prompt: make([]int32, len(ids))}
		for k, id := range ids {
			groups[i].Prompt[k] = int32(id)
		}
	}
	return groups, nil
}

// requests asks for the completions of a step's groups, of which the first is number first.
func (t *Trainer) requests(groups []*Group, first int) []sampler.Request {
	requests := make([]sampler.Request, len(groups))
	for i, g := range groups {
		requests[i] = sampler.Request{Prompt: g.Prompt, N: t.CompletionsPerPrompt, Params: t.Sampling,
			Key: sampler.Key{Seed: t.Seed, Step: t.step + 1, Problem: first + i}}
	}
	return requests
}

// sample draws the completions and scores them, each as soon as it is there.
func (t *Trainer) sample(ctx context.Context, groups []*Group, requests []sampler.Request, timing *Timing) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	total := 0
	for i, g := range groups {
		n := requests[i].N
		g.Rollouts, g.Texts, g.Scores = make([]sampler.Rollout, n), make([]string, n), make([]reward.Score, n)
		total += n
	}
	// Completions go to the grader in the order in which they end; scores come back in that order.
	finished := make(chan reward.Completion, total)
	order := make(chan sampler.Rollout, total)
	scored := make(chan error, 1)
	score := func() {
		for graded, err := range reward.Stream(ctx, t.Grader, finished, total) {
			if err != nil {
				cancel()
				scored <- err
				return
			}
			r := <-order
			groups[r.Request].Scores[r.Sample] = graded.Score
		}
		scored <- nil
	}
	watch := startWatch()
	t.Watcher.Phase("sample", total)
	if !t.ScoreWhenDone {
		go score()
	}
	_, err := t.Engine.Sample(ctx, requests, sampler.Events{Done: func(r sampler.Rollout) {
		g := groups[r.Request]
		g.Rollouts[r.Sample], g.Texts[r.Sample] = r, t.text(r.Tokens)
		order <- r
		finished <- reward.Completion{Problem: &g.Problem, Text: g.Texts[r.Sample], Truncated: r.Finish == sampler.Length,
			Tokens: len(r.Tokens), MaxTokens: requests[r.Request].Params.MaxTokens}
		t.Watcher.Advance(1)
	}})
	close(finished)
	timing.Sample += watch.lap()
	if t.ScoreWhenDone {
		go score()
	}
	if err != nil {
		cancel()
	}
	serr := <-scored
	timing.Score += watch.lap()
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		return fmt.Errorf("sample: %w", err)
	case serr != nil && !errors.Is(serr, context.Canceled): // which also ended the sampling
		return fmt.Errorf("score: %w", serr)
	case err != nil:
		return err
	}
	return serr
}

// text is what a completion says, without control tokens.
func (t *Trainer) text(tokens []int32) string {
	ids := make([]int, len(tokens))
	for i, id := range tokens {
		ids[i] = int(id)
	}
	return t.Tokenizer.Decode(ids, true)
}
