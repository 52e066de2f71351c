package grpo

import (
	"context"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/sampler"
)

// sampling has the sampler, and the parameters it draws with in training and evaluation.
type sampling struct {
	engine        *sampler.Engine
	train, eval   sampler.Params
	longestPrompt int // tokens
	memory        *footprint.Plan
}

// planSampling finds the longest prompt, and plans memory for it with a completion of full length.
func planSampling(ctx context.Context, run footprint.Run, p *policy, problems *sources.Problems) (*sampling, error) {
	cfg := run.Config
	train := sampler.Params{Temperature: float32(cfg.Temperature), MaxTokens: cfg.MaxTokens, StopTokens: p.Stops,
		Watch: sampler.StopStrings(cfg.Stop, func() sampler.TextStream { return p.Tokenizer.NewStream(false) })}
	eval := train
	eval.TopK, eval.TopP, eval.MinP = cfg.EvalTopK, float32(cfg.EvalTopP), float32(cfg.EvalMinP)
	s := &sampling{train: train, eval: eval}
	longest, err := problems.Longest(ctx, p.Language, cfg, run.Trains)
	if err != nil {
		return nil, err
	}
	s.longestPrompt = longest
	run.MaxPrompt = s.longestPrompt
	s.memory, err = footprint.Estimate(run)
	return s, err
}

// open allocates what was planned: activations of training first, then the KV cache.
func (s *sampling) open(p *policy, learns bool, turn sync.Locker) (err error) {
	if learns {
		if _, _, err = p.Prepare(s.memory.Sampler.MaxLength); err != nil {
			return err
		}
	}
	if s.engine, err = sampler.New(p.Policy, s.memory.Sampler); err == nil {
		s.engine.Turn = turn
	}
	return err
}
