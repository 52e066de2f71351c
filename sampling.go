package grpo

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/sampler"
)

// sampling is how completions are drawn.
type sampling struct {
	engine        *sampler.Engine
	train, eval   sampler.Params
	longestPrompt int // tokens
	activations   int // bytes of training and scoring
}

// openSampling makes room for the longest prompt that there is, with a completion of full length.
func openSampling(cfg *configs.Config, p *policy, problems *sources.Problems) (*sampling, error) {
	train := sampler.Params{Temperature: float32(cfg.Temperature), MaxTokens: cfg.MaxTokens, StopTokens: p.stops,
		Watch: sampler.StopStrings(cfg.Stop, func() sampler.TextStream { return p.tokenizer.NewStream(false) })}
	eval := train
	eval.TopK, eval.TopP, eval.MinP = cfg.EvalTopK, float32(cfg.EvalTopP), float32(cfg.EvalMinP)
	s := &sampling{train: train, eval: eval}
	where, err := s.findLongest(p, problems)
	if err != nil {
		return nil, err
	}
	length := s.longestPrompt + cfg.MaxTokens
	if length > p.MaxPositions {
		return nil, badinput.Errorf("max_tokens is %d and the longest prompt, %s, has %d tokens: %d together, "+
			"more than the model's %d positions; lower max_tokens, or leave the problem out (max_prompt_chars is for data)",
			cfg.MaxTokens, where, s.longestPrompt, length, p.MaxPositions)
	}
	if len(problems.Train) > 0 {
		if s.activations, err = p.Prepare(length); err != nil {
			return nil, err
		}
	}
	s.engine, err = sampler.New(p.Policy, sampler.Options{MaxSequences: cfg.MaxSequences, MaxLength: length, TokenBudget: cfg.TokenBudget,
		CacheBytes: int64(cfg.CacheMemory)})
	return s, err
}

// findLongest finds the longest prompt, and says which it is.
func (s *sampling) findLongest(p *policy, problems *sources.Problems) (where string, err error) {
	for _, set := range []struct {
		name     string
		problems []data.Problem
	}{{"data", problems.Train}, {"test_data", problems.HeldOut}} {
		prompts, err := p.prompts(set.problems, 0)
		if err != nil {
			return "", err
		}
		for _, prompt := range prompts {
			if n := len(prompt.Tokens); n > s.longestPrompt {
				s.longestPrompt, where = n, fmt.Sprintf("problem %s of %s", prompt.Problem.ID, set.name)
			}
		}
	}
	return where, nil
}
