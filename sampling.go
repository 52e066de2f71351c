package grpo

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/sampler"
)

// sampling is how completions are drawn.
type sampling struct {
	engine        *sampler.Engine
	train, eval   sampler.Params
	longestPrompt int // tokens
	memory        *footprint.Plan
}

// planSampling finds the longest prompt that there is, and wants room for it with a completion of full length.
func planSampling(run footprint.Run, p *policy, problems *sources.Problems) (*sampling, error) {
	cfg := run.Config
	train := sampler.Params{Temperature: float32(cfg.Temperature), MaxTokens: cfg.MaxTokens, StopTokens: p.Stops,
		Watch: sampler.StopStrings(cfg.Stop, func() sampler.TextStream { return p.Tokenizer.NewStream(false) })}
	eval := train
	eval.TopK, eval.TopP, eval.MinP = cfg.EvalTopK, float32(cfg.EvalTopP), float32(cfg.EvalMinP)
	s := &sampling{train: train, eval: eval}
	where, err := s.findLongest(p, problems)
	if err != nil {
		return nil, err
	}
	length := s.longestPrompt + cfg.MaxTokens
	if most := p.Shape.MaxPositions; length > most {
		return nil, badinput.Errorf("max_tokens is %d and the longest prompt, %s, has %d tokens: %d together, "+
			"more than the model's %d positions; lower max_tokens, or leave the problem out (max_prompt_chars is for data)",
			cfg.MaxTokens, where, s.longestPrompt, length, most)
	}
	run.Prompt = s.longestPrompt
	s.memory, err = footprint.Of(run)
	return s, err
}

// open makes the room that is planned.
func (s *sampling) open(p *policy, learns bool) (err error) {
	if learns {
		if _, _, err = p.Prepare(s.memory.Sampler.MaxLength); err != nil {
			return err
		}
	}
	s.engine, err = sampler.New(p.Policy, s.memory.Sampler)
	return err
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
