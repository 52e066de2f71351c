package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
)

// Sampling measures the sampler's decoder on sequences of a given length.
type Sampling struct {
	Model
	Batch, Context int
	Group          int // sequences that share the complete blocks of a context; 0: 1
}

func (m *Sampling) group() int { return max(m.Group, 1) }

// SamplingResult is the throughput.
type SamplingResult struct {
	Bench        string         `json:"bench"`
	Backend      string         `json:"backend"`
	Shape        string         `json:"shape"`
	Rank         int            `json:"rank"`
	Batch        int            `json:"batch"`
	Context      int            `json:"context"`
	Group        int            `json:"group"`
	KV           string         `json:"kv_cache_dtype"`
	Adapter      string         `json:"adapter_precision"`
	Limits       hardwareLimits `json:"limits"`
	StepMS       float64        `json:"step_ms"`
	TokensPerSec float64        `json:"tokens_per_s"`
	LimitPerSec  float64        `json:"limit_tokens_per_s"`
	PeakMemory   int64          `json:"peak_resident_bytes"`
}

// decodeSteps are the steps in one timed run of decoding.
const decodeSteps = 16

// Decode measures decoding, with the context in the KV cache.
func Decode(ctx context.Context, m *Sampling) (*SamplingResult, error) {
	return m.run("decode", m.Batch, max(m.Batch, m.Context), func(s *sequences) (time.Duration, error) {
		if err := s.prefill(1); err != nil {
			return 0, err
		}
		s.spread()
		took, err := timeRuns(ctx, m.Runs, func() error { return s.decode(decodeSteps) })
		return took / decodeSteps, err
	})
}

// Prefill measures the prefill of prompts, with the first token of each.
func Prefill(ctx context.Context, m *Sampling) (*SamplingResult, error) {
	tokens := m.Batch * m.Context
	return m.run("prefill", tokens, tokens, func(s *sequences) (time.Duration, error) {
		return timeRuns(ctx, m.Runs, func() error { return s.prefill(m.Batch) })
	})
}

// run measures a step that processes that many tokens, on a decoder with that many rows.
func (m *Sampling) run(name string, tokens, rows int, step func(*sequences) (time.Duration, error)) (*SamplingResult, error) {
	if err := m.check(name); err != nil {
		return nil, err
	}
	lim, b, err := m.begin()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	p, err := model.Random(b, m.Shape, m.Options)
	if err != nil {
		return nil, err
	}
	if m.Rank > 0 {
		if err := attachRandom(p, m.Rank); err != nil {
			return nil, err
		}
	}
	s, err := newSequences(p, rows, m.Batch, m.Context, decodeSteps)
	if err != nil {
		return nil, err
	}
	s.group = m.group()
	took, err := step(s)
	if err != nil {
		return nil, err
	}
	work, bytes := p.SamplingWork(tokens, m.Context, m.Batch)
	bytes -= m.shared(p)
	return &SamplingResult{
		Bench: name, Backend: b.Name(), Shape: m.Shape, Rank: m.Rank, Batch: m.Batch, Context: m.Context, Group: m.group(),
		KV: p.Cache.Cached().String(), Adapter: p.AdapterPrecision.String(), Limits: lim,
		StepMS: took.Seconds() * 1e3, TokensPerSec: float64(tokens) / took.Seconds(),
		LimitPerSec: float64(tokens) / max(work.Seconds(lim.Products, lim.Flops), bytes/lim.Bytes), PeakMemory: peakMemory(),
	}, nil
}

// check refuses invalid sizes.
func (m *Sampling) check(name string) error {
	shape, err := model.ShapeNamed(m.Shape)
	most := shape.MaxPositions
	if name == "decode" {
		most -= decodeSteps
	}
	switch {
	case err != nil:
		return err
	case m.Batch < 1 || m.Context < 1:
		return badinput.Errorf("--batch and --context: found %d and %d, expected 1 or more", m.Batch, m.Context)
	case m.Group < 0 || m.Batch%m.group() != 0:
		return badinput.Errorf("--group: found %d, expected a number of sequences that divides --batch %d", m.Group, m.Batch)
	case m.Context > most:
		return badinput.Errorf("--context: found %d, expected at most %d, as %s has %d positions", m.Context, most, m.Shape, shape.MaxPositions)
	}
	return nil
}

// shared is the bytes of the KV cache that several sequences read but need to be read only once; 0 with a sliding window.
func (m *Sampling) shared(p *model.Policy) float64 {
	if last, _ := p.Reads(m.Context); last < float64(m.Context) {
		return 0
	}
	return float64((m.Batch - m.Batch/m.group()) * (m.Context / p.CacheBlock()) * p.BlockBytes())
}

// Report is the result for people.
func (r *SamplingResult) Report() Report {
	t := Report{Above: r.Limits.above(r.Backend), Header: []string{
		"shape", "rank", "batch", "group", "context", "cache", r.Bench, "a step", "limit", "share", "peak memory"}}
	t.row(r.Shape, fmt.Sprint(r.Rank), fmt.Sprint(r.Batch), fmt.Sprint(r.Group), fmt.Sprint(r.Context), r.KV, perSecond(r.TokensPerSec),
		fmt.Sprintf("%.2f ms", r.StepMS), fmt.Sprintf("%.1f", r.LimitPerSec), percent(r.TokensPerSec/r.LimitPerSec), gigabytes(r.PeakMemory))
	return t
}

// sequences are equally long sequences, one after the other in a decoder's KV cache.
type sequences struct {
	d              *model.Decoder
	batch, context int
	group, block   int // sequences sharing a context, and positions of a block
	vocab          int
	rows           model.Rows
}

// newSequences makes a decoder with that many rows, and room for more tokens after the context.
func newSequences(p *model.Policy, rows, batch, context, more int) (*sequences, error) {
	stride := (context+more)/p.CacheBlock() + 1
	d, err := p.NewDecoder(model.DecoderSize{Blocks: batch * stride, Rows: rows, Sequences: batch, TableStride: stride})
	return &sequences{d: d, batch: batch, context: context, group: 1, block: p.CacheBlock(), vocab: p.Vocab}, err
}

// table is the block table of a sequence. Within a group, the full blocks of the context are those of its first sequence.
func (s *sequences) table(i int) []int32 {
	t := make([]int32, s.d.TableStride)
	for k := range t {
		of := i
		if k < s.context/s.block {
			of = i / s.group * s.group
		}
		t[k] = int32(of*s.d.TableStride + k)
	}
	return t
}

// run processes rows [from, to) with random tokens for each of n sequences, and draws a token after each.
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
	_, err := s.d.Run(&s.rows)
	return err
}

func (s *sequences) prefill(n int) error {
	return s.run(n, 0, s.context)
}

// spread copies the context of the first sequence to all others.
func (s *sequences) spread() {
	var to, from []int32
	for i := 1; i < s.batch; i++ {
		to, from = append(to, s.table(i)...), append(from, s.table(0)...)
	}
	s.d.CopyBlocks(to, from)
}

// decode decodes that many tokens for each sequence after the context, overwriting earlier ones.
func (s *sequences) decode(steps int) error {
	for at := s.context; at < s.context+steps; at++ {
		if err := s.run(s.batch, at, at+1); err != nil {
			return err
		}
	}
	return nil
}
