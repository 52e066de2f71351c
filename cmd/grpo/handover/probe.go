package handover

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// probe has a model's outputs on some tokens, for comparing models.
type probe struct {
	prompts   [][]int32
	sequences [][]int32 // sequences to score: random tokens, and the prompts with the policy's answers
	spoken    int       // how many of the sequences, at the end, are answers
	answers   [][]int32 // greedy answers to the prompts
	scores    [][]float32
	moved     float64 // how much the adapter changes a log-probability on average
}

// Sizes of a probe: large enough to distinguish models, small enough to be quick.
const (
	answerTokens = 48
	randomTokens = 64
	randomTexts  = 4
)

// questions are the prompts for the models.
var questions = []string{
	"Write a Python function that adds two numbers.",
	"Print the numbers from 1 to 5, each on a line of its own.",
	"Read a line, and print it backwards.",
}

// options are the options for comparing models: everything in f32.
func (s *source) options() model.Options {
	return model.Options{Precision: model.F32, Cache: model.F32, Quantise: s.quantise, Frozen: true}
}

// policyProbe is the probe of the policy itself.
func (s *source) policyProbe(ctx context.Context, b kernels.Backend) (*probe, error) {
	p, err := model.OpenContext(ctx, b, s.dir, false, s.options())
	if err != nil {
		return nil, err
	}
	w := &probe{}
	positions := p.MaxPositions
	if s.positions != nil {
		positions = s.positions(p.Config)
	}
	if w.prompts, err = s.prompts(positions); err != nil {
		return nil, err
	}
	var bare [][]float32
	w.sequences = randomSequences(p.Vocab, positions)
	if s.adapter != "" {
		if bare, err = p.Score(ctx, w.sequences, 1); err != nil {
			return nil, err
		}
		a, err := lora.Load(s.adapter, p.LoRADims())
		if err != nil {
			return nil, err
		}
		if err := p.Attach(a); err != nil {
			return nil, fmt.Errorf("%s: %w", s.adapter, err)
		}
	}
	if w.answers, err = s.answer(ctx, p, w.prompts); err != nil {
		return nil, err
	}
	for i, a := range w.answers {
		if text := slices.Concat(w.prompts[i], a); len(text) > 1 {
			w.sequences = append(w.sequences, text)
			w.spoken++
		}
	}
	if w.scores, err = p.Score(ctx, w.sequences, 1); err != nil {
		return nil, err
	}
	if bare != nil {
		w.moved, _ = differences(w.scores[:len(bare)], bare)
	}
	return w, nil
}

// repeatProbe is the same probe of another model.
func (s *source) repeatProbe(ctx context.Context, p *model.Policy, want *probe) (got *probe, err error) {
	got = &probe{prompts: want.prompts, sequences: want.sequences, spoken: want.spoken}
	if got.scores, err = p.Score(ctx, want.sequences, 1); err != nil {
		return nil, err
	}
	got.answers, err = s.answer(ctx, p, want.prompts)
	return got, err
}

// prompts are the questions, in the model's chat format if it has one, that leave room for an answer.
func (s *source) prompts(positions int) (all [][]int32, err error) {
	if s.tok == nil {
		return nil, nil
	}
	for _, q := range questions {
		tokens := s.tok.Encode(q)
		if s.renderer != nil {
			if tokens, _, err = s.renderer.Prompt([]chat.Message{{Role: "user", Content: q}}); err != nil {
				return nil, err
			}
		}
		if len(tokens) > 0 && len(tokens)+answerTokens <= positions {
			all = append(all, tokens)
		}
	}
	return all, nil
}

// answer returns the greedy completion of each prompt.
func (s *source) answer(ctx context.Context, p *model.Policy, prompts [][]int32) (answers [][]int32, err error) {
	if len(prompts) == 0 {
		return nil, nil
	}
	longest := 0
	var requests []sampler.Request
	for _, t := range prompts {
		longest = max(longest, len(t))
		requests = append(requests, sampler.Request{Prompt: t, N: 1, Params: sampler.Params{MaxTokens: answerTokens, StopTokens: s.stops}})
	}
	e, err := sampler.New(p, sampler.Options{MaxLength: min(longest+answerTokens, p.MaxPositions), MaxSequences: len(prompts)})
	if err != nil {
		return nil, err
	}
	rollouts, err := e.Sample(ctx, requests, sampler.Events{})
	for _, r := range rollouts {
		answers = append(answers, r.Tokens)
	}
	return answers, err
}

// randomSequences are random tokens, the same ones each time.
func randomSequences(vocab, positions int) [][]int32 {
	rng := rand.New(rand.NewPCG(7, 11))
	all := make([][]int32, randomTexts)
	for i := range all {
		all[i] = make([]int32, min(randomTokens, positions))
		for k := range all[i] {
			all[i][k] = rng.Int32N(int32(vocab))
		}
	}
	return all
}

// differences are the mean and the largest difference of log-probabilities. NaN counts as infinite.
func differences(a, b [][]float32) (mean, most float64) {
	n := 0
	for i := range a {
		for k := range a[i] {
			d := math.Abs(float64(a[i][k]) - float64(b[i][k]))
			if math.IsNaN(d) {
				d = math.Inf(1)
			}
			mean, most, n = mean+d, math.Max(most, d), n+1
		}
	}
	return mean / float64(max(n, 1)), most
}
