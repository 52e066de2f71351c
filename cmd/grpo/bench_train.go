package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

func newBenchTrainCmd() *cobra.Command {
	var flags benchFlags
	cmd := &cobra.Command{
		Use:   "train [--shape S] [--tokens N] [--rank R]",
		Short: "Forward and backward pass of one sequence with a LoRA adapter, and Adam's update",
		Example: `  grpo bench train
  grpo bench train --shape qwen3-4b --tokens 256 --rank 32`,
		Args: badArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return benchTrain(cmd, &flags) },
	}
	flags.register(cmd, 16)
	return cmd
}

// trainResult is what bench train prints.
type trainResult struct {
	Bench        string  `json:"bench"`
	Backend      string  `json:"backend"`
	Shape        string  `json:"shape"`
	Tokens       int     `json:"tokens"`
	Rank         int     `json:"rank"`
	Limits       limits  `json:"limits"`
	TokensPerSec float64 `json:"tokens_per_s"`
	LimitPerSec  float64 `json:"limit_tokens_per_s"`
	UpdateSec    float64 `json:"update_s"`
	AllocsBytes  float64 `json:"allocated_bytes_per_step"`
	PeakMemory   int64   `json:"peak_resident_bytes"`
}

func benchTrain(cmd *cobra.Command, f *benchFlags) error {
	lim, err := f.limits()
	if err != nil {
		return err
	}
	b, err := f.backend()
	if err != nil {
		return err
	}
	defer b.Close()
	step, err := newTrainStep(b, f)
	if err != nil {
		return err
	}
	took, err := timeRuns(f.runs, func() error { return step.gradients(cmd.Context()) })
	if err != nil {
		return err
	}
	update, err := timeRuns(f.runs, step.update)
	if err != nil {
		return err
	}
	r := trainResult{Bench: "train", Backend: b.Name(), Shape: f.shape, Tokens: f.tokens, Rank: f.rank, Limits: lim,
		TokensPerSec: float64(f.tokens) / took.Seconds(), LimitPerSec: 1 / step.policy.TrainingWork(f.rank, f.tokens).Seconds(lim.Products, lim.Flops),
		UpdateSec: update.Seconds(), PeakMemory: peakMemory()}
	if r.AllocsBytes, err = step.allocations(cmd.Context()); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s; %s\n", r.Backend, lim)
	t := newTable(out, "shape", "tokens", "rank", "forward+backward", "limit", "share", "update", "peak memory", "allocated a step")
	t.row(r.Shape, fmt.Sprint(r.Tokens), fmt.Sprint(r.Rank), fmt.Sprintf("%.1f tokens/s", r.TokensPerSec), fmt.Sprintf("%.1f", r.LimitPerSec),
		fmt.Sprintf("%.0f %%", 100*r.TokensPerSec/r.LimitPerSec), update.Round(time.Millisecond/10).String(),
		fmt.Sprintf("%.2f GB", float64(r.PeakMemory)/1e9), fmt.Sprintf("%.0f B", r.AllocsBytes))
	if err := t.Flush(); err != nil {
		return err
	}
	return printJSON(out, r)
}

// trainStep is a random model with a random adapter and one random sequence to learn.
type trainStep struct {
	policy *model.Policy
	adam   *optim.Adam
	datums []model.Datum
}

func newTrainStep(b kernels.Backend, f *benchFlags) (*trainStep, error) {
	o := f.options()
	o.MaxRows = max(o.MaxRows, f.tokens)
	p, err := model.Random(b, f.shape, o)
	if err != nil {
		return nil, err
	}
	if err := attachRandom(p, f.rank); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(3, 3))
	tokens := make([]int32, f.tokens+1)
	for i := range tokens {
		tokens[i] = rng.Int32N(int32(p.Vocab))
	}
	s := &trainStep{policy: p, datums: []model.Datum{model.NewDatum(tokens, 1, make([]float32, f.tokens), 1)}}
	params, grads, locate := p.Slabs()
	s.adam, err = optim.NewAdam(b, params, grads, optim.Defaults(), locate)
	return s, err
}

// attachRandom gives the model an adapter whose values mean nothing.
func attachRandom(p *model.Policy, rank int) error {
	c := lora.Defaults()
	c.Rank = rank
	layout, err := lora.NewLayout(c, p.LoRADims())
	if err != nil {
		return err
	}
	adapter := lora.New(layout)
	rng := rand.New(rand.NewPCG(4, 4))
	for _, e := range layout.Entries() {
		values := adapter.Of(e)
		for i := range values {
			values[i] = 0.02 * (2*rng.Float32() - 1)
		}
	}
	return p.Attach(adapter)
}

// gradients is one forward and backward pass. The objective is the likelihood, as the ratio of a
// random model to nothing would overflow.
func (s *trainStep) gradients(ctx context.Context) error {
	_, err := s.policy.Accumulate(ctx, s.datums, model.Objective{
		Loss: kernels.Loss{Kind: kernels.CrossEntropy}, Reduction: model.TokenMean, Temperature: 1})
	return err
}

func (s *trainStep) update() error {
	if _, err := s.adam.Step(1e-5); err != nil {
		return err
	}
	s.policy.Publish()
	return nil
}

// allocations is what one more step allocates on the Go heap.
func (s *trainStep) allocations(ctx context.Context) (float64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := s.gradients(ctx); err != nil {
		return 0, err
	}
	if err := s.update(); err != nil {
		return 0, err
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc), nil
}
