package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

func newBenchDecodeCmd() *cobra.Command {
	var flags sampleBench
	cmd := &cobra.Command{
		Use:   "decode [--shape S] [--batch B] [--context C]",
		Short: "Next tokens of B sequences that have C tokens in the cache",
		Example: `  grpo bench decode
  grpo bench decode --batch 32 --context 512`,
		Args: badArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd, "decode") },
	}
	flags.registerSampling(cmd, 1, 32)
	return cmd
}

func newBenchPrefillCmd() *cobra.Command {
	var flags sampleBench
	cmd := &cobra.Command{
		Use:     "prefill [--shape S] [--batch B] [--context C]",
		Short:   "Prompts of C tokens of B sequences, and the first token of each",
		Example: `  grpo bench prefill --context 512`,
		Args:    badArgs(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return flags.run(cmd, "prefill") },
	}
	flags.registerSampling(cmd, 1, 512)
	return cmd
}

// sampleBench measures the sampler's decoder.
type sampleBench struct {
	benchFlags
	batch, context int
}

func (f *sampleBench) registerSampling(cmd *cobra.Command, batch, context int) {
	f.register(cmd, 0)
	cmd.Flags().IntVar(&f.batch, "batch", batch, "sequences")
	cmd.Flags().IntVar(&f.context, "context", context, "tokens of each sequence")
	for _, unused := range []string{"tokens", "max-rows"} {
		must(cmd.Flags().MarkHidden(unused))
	}
}

// sampleResult is what the benchmark prints.
type sampleResult struct {
	Bench        string  `json:"bench"`
	Backend      string  `json:"backend"`
	Shape        string  `json:"shape"`
	Rank         int     `json:"rank"`
	Batch        int     `json:"batch"`
	Context      int     `json:"context"`
	Limits       limits  `json:"limits"`
	StepMS       float64 `json:"step_ms"`
	TokensPerSec float64 `json:"tokens_per_s"`
	LimitPerSec  float64 `json:"limit_tokens_per_s"`
	PeakMemory   int64   `json:"peak_resident_bytes"`
}

func (f *sampleBench) run(cmd *cobra.Command, what string) error {
	if f.batch < 1 || f.context < 1 {
		return badinput.Errorf("--batch and --context: found %d and %d, expected 1 or more", f.batch, f.context)
	}
	lim, err := f.limits()
	if err != nil {
		return err
	}
	b, err := f.backend()
	if err != nil {
		return err
	}
	defer b.Close()
	p, err := model.Random(b, f.shape, f.options())
	if err != nil {
		return err
	}
	if f.rank > 0 {
		if err := attachRandom(p, f.rank); err != nil {
			return err
		}
	}
	const steps = 16 // of decoding in one timed run
	rows := max(f.batch, f.context)
	if what == "prefill" {
		rows = f.batch * f.context
	}
	s, err := newSequences(p, rows, f.batch, f.context, steps*(f.runs+1))
	if err != nil {
		return err
	}
	tokens, took := 0, time.Duration(0)
	if what == "prefill" {
		tokens = f.batch * f.context
		took, err = timeRuns(f.runs, func() error { return s.prefill(f.batch) })
	} else {
		if err = s.prefill(1); err == nil {
			s.spread()
			tokens = f.batch
			took, err = timeRuns(f.runs, func() error { return s.decode(steps) })
			took /= steps
		}
	}
	if err != nil {
		return err
	}
	r := sampleResult{Bench: what, Backend: b.Name(), Shape: f.shape, Rank: f.rank, Batch: f.batch, Context: f.context, Limits: lim,
		StepMS: took.Seconds() * 1e3, TokensPerSec: float64(tokens) / took.Seconds(), PeakMemory: peakMemory()}
	work, bytes := p.SamplingWork(tokens, f.context, f.batch)
	r.LimitPerSec = float64(tokens) / max(work.Seconds(lim.Products, lim.Flops), bytes/lim.Bytes)
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s; %s\n", r.Backend, lim)
	t := newTable(out, "shape", "rank", "batch", "context", what, "a step", "limit", "share", "peak memory")
	t.row(r.Shape, fmt.Sprint(r.Rank), fmt.Sprint(r.Batch), fmt.Sprint(r.Context), fmt.Sprintf("%.1f tokens/s", r.TokensPerSec), fmt.Sprintf("%.2f ms", r.StepMS),
		fmt.Sprintf("%.1f", r.LimitPerSec), fmt.Sprintf("%.0f %%", 100*r.TokensPerSec/r.LimitPerSec), fmt.Sprintf("%.2f GB", float64(r.PeakMemory)/1e9))
	if err := t.Flush(); err != nil {
		return err
	}
	return printJSON(out, r)
}

// sequences are equally long and lie one after the other in a decoder's cache.
type sequences struct {
	d                      *model.Decoder
	batch, length, context int
	vocab                  int
	rows                   model.Rows
}

// newSequences makes a decoder of that many rows a run, with room for more tokens after the context.
func newSequences(p *model.Policy, rows, batch, context, more int) (*sequences, error) {
	stride := (context+more)/kernels.CacheBlock + 1
	d, err := p.NewDecoder(model.DecoderSize{Blocks: batch * stride, Rows: rows, Sequences: batch, TableStride: stride})
	return &sequences{d: d, batch: batch, context: context, vocab: p.Vocab}, err
}

// table is the blocks of a sequence.
func (s *sequences) table(i int) []int32 {
	t := make([]int32, s.d.TableStride)
	for k := range t {
		t[k] = int32(i*s.d.TableStride + k)
	}
	return t
}

// run adds rows [from, to) of random tokens to each of n sequences, and draws a token after each.
func (s *sequences) run(n, from, to int) error {
	rng := rand.New(rand.NewPCG(uint64(from), 9))
	s.rows.Reset()
	for i := range n {
		for p := from; p < to; p++ {
			s.rows.Tokens = append(s.rows.Tokens, rng.Int32N(int32(s.vocab)))
			s.rows.Positions = append(s.rows.Positions, int32(p))
		}
		s.rows.Starts = append(s.rows.Starts, int32(len(s.rows.Tokens)))
		s.rows.Tables = append(s.rows.Tables, s.table(i)...)
		s.rows.Draws = append(s.rows.Draws, model.Draw{Row: len(s.rows.Tokens) - 1, Uniform: rng.Float64(), InvTemp: 1, TopP: 1})
	}
	_, _, err := s.d.Run(&s.rows)
	return err
}

func (s *sequences) prefill(n int) error {
	s.length = s.context
	return s.run(n, 0, s.context)
}

// spread gives every sequence the context of the first.
func (s *sequences) spread() {
	var to, from []int32
	for i := 1; i < s.batch; i++ {
		to, from = append(to, s.table(i)...), append(from, s.table(0)...)
	}
	s.d.CopyBlocks(to, from)
}

func (s *sequences) decode(steps int) error {
	for range steps {
		if err := s.run(s.batch, s.length, s.length+1); err != nil {
			return err
		}
		s.length++
	}
	return nil
}
