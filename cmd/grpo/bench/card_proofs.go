package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// How far GPU and CPU may differ, as both round to bf16: each may be half as far from exact results.
const (
	nearScores    = 4e-2
	nearGradients = 4e-2
)

// checkAgainstCPU compares the GPU with the CPU, and with itself.
func (r *CardResult) checkAgainstCPU(ctx context.Context, b kernels.Backend, size cardSize) error {
	c, err := cpu.New(cpu.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	var scores, gradients [2][]float32
	for i, on := range []kernels.Backend{b, c} {
		if scores[i], gradients[i], err = probe(ctx, on); err != nil {
			return err
		}
	}
	worst := 0.0
	for i, x := range scores[0] {
		worst = max(worst, math.Abs(float64(x)-float64(scores[1][i])))
	}
	away := relativeError(gradients[0], gradients[1])
	r.add(checkResult{"a small model agrees with the processor", worst < nearScores && away < nearGradients,
		fmt.Sprintf("log-probabilities differ by %.2g at the most, gradients by %.2g of their norm", worst, away)})
	cases, wrong, err := checkRowIndependence(b, size)
	r.add(checkResult{"a row has the same bits at every place", wrong == 0,
		fmt.Sprintf("%d of %d rows of products differ, in random batches", wrong, cases)})
	return err
}

// probe computes log-probabilities and gradients of a small model.
func probe(ctx context.Context, b kernels.Backend) (scores, gradients []float32, err error) {
	p, err := model.Random(b, "tiny", model.Options{Precision: model.BF16, Cache: model.BF16})
	if err != nil {
		return nil, nil, err
	}
	if err = attachRandom(p, 8); err != nil {
		return nil, nil, err
	}
	s, err := trainStepOf(b, p, 40)
	if err != nil {
		return nil, nil, err
	}
	all, err := p.Score(ctx, [][]int32{s.datums[0].Tokens}, 1)
	if err != nil {
		return nil, nil, err
	}
	if err = s.gradients(ctx); err != nil {
		return nil, nil, err
	}
	a, err := p.Gradients()
	if err != nil {
		return nil, nil, err
	}
	return all[0], a.Values, nil
}

// relativeError is ‖a − b‖ / ‖b‖.
func relativeError(a, b []float32) float64 {
	var difference, norm float64
	for i := range b {
		d := float64(a[i]) - float64(b[i])
		difference, norm = difference+d*d, norm+float64(b[i])*float64(b[i])
	}
	return math.Sqrt(difference / norm)
}

// checkRowIndependence checks that the product of a row does not depend on its batch: it multiplies rows in a large batch, and each
// again in a batch of random size at a random place.
func checkRowIndependence(b kernels.Backend, size cardSize) (cases, wrong int, err error) {
	n, k := size.outputs, size.inputs
	rng := rand.New(rand.NewPCG(6, 6))
	x := make([]float32, size.rows*k)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	w, err := b.NewMatrix(kernels.BF16Rounding, n, k)
	if err != nil {
		return 0, 0, err
	}
	b.Load(w, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: randomWeights(n * k)})
	in, err := b.Alloc(kernels.F32, size.rows*k)
	if err != nil {
		return 0, 0, err
	}
	out, err := b.Alloc(kernels.F32, size.rows*n)
	if err != nil {
		return 0, 0, err
	}
	defer b.Release(in)
	defer b.Release(out)
	product := func(rows []float32) ([]float32, error) {
		b.Upload(in, rows)
		T := len(rows) / k
		b.Linear(kernels.Whole(out, n), kernels.Whole(in, k), w, kernels.LinearOpt{Alpha: 1}, T)
		got := make([]float32, T*n)
		return got, b.Download(got, out)
	}
	want, err := product(x)
	for range size.cases {
		if err != nil {
			break
		}
		row, T := rng.IntN(size.rows), 1+rng.IntN(size.rows)
		place := rng.IntN(T)
		batch := slices.Clone(x[:T*k])
		copy(batch[place*k:], x[row*k:(row+1)*k])
		var got []float32
		if got, err = product(batch); err == nil && !slices.Equal(got[place*n:(place+1)*n], want[row*n:(row+1)*n]) {
			wrong++
		}
		cases++
	}
	return cases, wrong, err
}

// rolloutSize is the size of a step: prompts, completions of each, and their tokens.
type rolloutSize struct{ prompts, completions, prompt, tokens, rank int }

// requests are random prompts.
func (size rolloutSize) requests(vocab int) []sampler.Request {
	rng := rand.New(rand.NewPCG(7, 7))
	all := make([]sampler.Request, size.prompts)
	for i := range all {
		prompt := make([]int32, size.prompt)
		for k := range prompt {
			prompt[k] = rng.Int32N(int32(vocab))
		}
		all[i] = sampler.Request{Prompt: prompt, N: size.completions, Key: sampler.Key{Problem: i},
			Params: sampler.Params{Temperature: 1, MaxTokens: size.tokens}}
	}
	return all
}

// step samples completions, compares the recorded log-probabilities with those of the trainer, and trains on them.
func (r *CardResult) step(ctx context.Context, b kernels.Backend, p *model.Policy, size rolloutSize) error {
	p.MaxRows = max(4*(size.prompt+size.tokens), 512)
	requests := size.requests(p.Vocab)
	s, err := trainStepOf(b, p, 2)
	if err != nil {
		return err
	}
	e, err := sampler.New(p, sampler.Options{MaxSequences: size.prompts * size.completions, MaxLength: size.prompt + size.tokens,
		TokenBudget: 4096})
	if err != nil {
		return err
	}
	began := time.Now()
	rollouts, err := e.Sample(ctx, requests, sampler.Events{})
	if err != nil {
		return err
	}
	sampling := time.Since(began)
	var sequences [][]int32
	s.datums = s.datums[:0]
	for i, o := range rollouts {
		all := slices.Concat(requests[o.Request].Prompt, o.Tokens)
		logprobs := append(make([]float32, size.prompt-1), o.LogProbs...)
		sequences = append(sequences, all)
		s.datums = append(s.datums, model.NewDatum(all, size.prompt, logprobs, float32(1-2*(i%2))))
	}
	scores, err := p.Score(ctx, sequences, 1)
	if err != nil {
		return err
	}
	tokens, wrong := 0, 0
	for i, o := range rollouts {
		for k, logp := range o.LogProbs {
			if tokens++; scores[i][size.prompt-1+k] != logp {
				wrong++
			}
		}
	}
	r.add(checkResult{"sampler = trainer, to the bit", wrong == 0,
		fmt.Sprintf("%d of %d sampled tokens have another log-probability where they are trained on", wrong, tokens)})
	began = time.Now()
	_, err = p.Accumulate(ctx, s.datums, model.Objective{Loss: kernels.Loss{Kind: kernels.ImportanceSampling}, Reduction: model.TokenMean,
		Temperature: 1})
	if err == nil {
		err = s.update()
	}
	if err = errors.Join(err, b.Sync()); err != nil {
		return err
	}
	training := time.Since(began)
	r.measured(cardRate{What: fmt.Sprintf("a step of %d × %d completions of %d tokens: sampled in %s, trained in %s",
		size.prompts, size.completions, size.tokens, sampling.Round(time.Millisecond), training.Round(time.Millisecond)),
		Rate: float64(tokens) / (sampling + training).Seconds()})
	return nil
}
