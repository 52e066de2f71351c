package model

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/adapted"
)

// someAdapter is an adapter that changes the scores.
func someAdapter(t *testing.T, p *Policy, c lora.Config, seed uint64) *lora.Adapter {
	t.Helper()
	l, err := lora.NewLayout(c, p.LoRADims())
	require.NoError(t, err)
	a := lora.New(l)
	a.Init(seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	for _, e := range a.Entries() {
		if e.Side == lora.B {
			for i := range a.Of(e) {
				a.Of(e)[i] = float32(rng.NormFloat64()) / 4
			}
		}
	}
	return a
}

// serving is a decoder with its sequences.
type serving struct {
	t        *testing.T
	d        *Decoder
	tokens   [][]int32
	cached   int // positions of all sequences
	stride   int
	adapters []*Served // of the sequences; nil: the base model
}

func newServing(t *testing.T, p *Policy, tokens [][]int32, adapters int) *serving {
	t.Helper()
	const stride = 3
	d, err := p.NewDecoder(DecoderSize{Blocks: stride * len(tokens), Rows: 64, Sequences: len(tokens), TableStride: stride,
		Adapters: adapters})
	require.NoError(t, err)
	return &serving{t: t, d: d, tokens: tokens, stride: stride}
}

// run computes the sequences up to a position in the given order, and draws after each row. It returns, by sequence, the tokens and their
// log-probabilities.
func (s *serving) run(to int, order []int) (tokens [][]int32, logps [][]float32) {
	s.t.Helper()
	var r Rows
	r.Reset()
	for _, i := range order {
		for p := s.cached; p < to; p++ {
			u := float64(7*i+3*p%11) / 100
			r.Draws = append(r.Draws, Draw{Row: len(r.Tokens), Uniform: u - float64(int(u)), InvTemp: 1 / 0.7, TopP: 1})
			r.Tokens, r.Positions = append(r.Tokens, s.tokens[i][p]), append(r.Positions, int32(p))
		}
		r.Starts = append(r.Starts, int32(len(r.Tokens)))
		for b := range s.stride {
			r.Tables = append(r.Tables, int32(i*s.stride+b))
		}
		if s.adapters != nil {
			r.Adapters = append(r.Adapters, s.adapters[i])
		}
	}
	drawn, err := s.d.Run(&r)
	require.NoError(s.t, err)
	tokens, logps = make([][]int32, len(s.tokens)), make([][]float32, len(s.tokens))
	for k, i := range order {
		from, end := k*(to-s.cached), (k+1)*(to-s.cached)
		tokens[i], logps[i] = slices.Clone(drawn.Tokens[from:end]), slices.Clone(drawn.LogProbs[from:end])
	}
	s.cached = to
	return tokens, logps
}

// Rows with adapters of several ranks, targets and scales, and rows without one, in any order in a run, have the results of a policy with
// that adapter attached, and of its scorer, to the bit.
func TestServedRowsAreThoseOfTheirAdapter(t *testing.T) {
	inEveryPrecision(t, func(t *testing.T, b kernels.Backend, o Options) {
		testServed(t, b, "qwen3-tied", o)
	})
	backendtest.On(t, backendtest.CPU(t, cpu.Options{Threads: 2}), func(t *testing.T, b kernels.Backend) {
		for _, name := range families {
			testServed(t, b, name, Options{Precision: BF16})
		}
		testServed(t, b, "nf4-double", Options{Precision: I16})
	})
}

func testServed(t *testing.T, b kernels.Backend, name string, o Options) {
	p := openGolden(t, b, name, "adapter", o) // a serving decoder does not use the attached adapter
	rng := rand.New(rand.NewPCG(8, 1))
	sequences := make([][]int32, 5)
	for i := range sequences {
		for range 11 {
			sequences[i] = append(sequences[i], int32(rng.IntN(p.Vocab)))
		}
	}
	adapters := []*lora.Adapter{
		someAdapter(t, p, lora.Config{Rank: 2, Alpha: 6, Targets: lora.AllTargets()}, 1), nil,
		someAdapter(t, p, lora.Config{Rank: 5, Alpha: 2, Targets: []lora.Target{lora.Q, lora.V, lora.Up, lora.Down}}, 2),
	}
	of := []int{0, 0, 1, 2, 0} // the sequences: equal neighbours, ones without, and one that returns
	s := newServing(t, p, sequences, 2)
	served := make([]*Served, len(adapters))
	for _, i := range []int{0, 2} {
		handed := lora.New(adapters[i].Layout)
		copy(handed.Values, adapters[i].Values)
		var err error
		served[i], err = s.d.Serve(handed)
		require.NoError(t, err)
		clear(handed.Values) // the decoder has its own copy
	}
	for _, i := range of {
		s.adapters = append(s.adapters, served[i])
	}
	tokens, logps := s.run(10, []int{0, 1, 2, 3, 4})
	last, lastLogps := s.run(11, []int{3, 0, 2, 4, 1})

	for i, a := range adapters {
		alone, err := p.Twin()
		require.NoError(t, err)
		if a != nil {
			require.NoError(t, alone.Attach(a))
		}
		same := newServing(t, alone, sequences, 0)
		wantTokens, wantLogps := same.run(10, []int{0, 1, 2, 3, 4})
		wantLast, wantLastLogps := same.run(11, []int{0, 1, 2, 3, 4})
		for k, which := range of {
			if which != i {
				continue
			}
			what := fmt.Sprintf("%s, sequence %d with adapter %d", name, k, i)
			require.Equal(t, wantTokens[k], tokens[k], what)
			require.Equal(t, wantLogps[k], logps[k], what)
			require.Equal(t, wantLast[k], last[k], what)
			require.Equal(t, wantLastLogps[k], lastLogps[k], what)
			scores, err := alone.Score(t.Context(), [][]int32{append(slices.Clone(sequences[k]), last[k][0])}, 0.7)
			require.NoError(t, err)
			require.Equal(t, scores[0][10], lastLogps[k][0], what)
		}
	}
	require.NotEqual(t, logps[0], logps[2])
}

// Adapters are added and removed between runs; a removed one is refused, and its memory is freed.
func TestAdaptersComeAndGo(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	p := openGolden(t, b, "qwen3-tied", "", Options{})
	s := newServing(t, p, [][]int32{{5, 9, 11, 3}}, 1)
	small := someAdapter(t, p, lora.Config{Rank: 1, Alpha: 1, Targets: []lora.Target{lora.O}}, 3)
	large := someAdapter(t, p, lora.Config{Rank: 9, Alpha: 1, Targets: lora.AllTargets()}, 4)
	var said [][]float32
	for _, a := range []*lora.Adapter{small, large, small} {
		served, err := s.d.Serve(a)
		require.NoError(t, err)
		_, err = s.d.Serve(a)
		require.True(t, badinput.Is(err), "%v", err)
		require.ErrorContains(t, err, "all 1 slots for adapters are taken")
		s.adapters, s.cached = []*Served{served}, 0
		_, logps := s.run(4, []int{0})
		said = append(said, logps[0])

		kept := weak.Make(served.corrections[adapted.LinearIndex(0, "o")])
		s.d.Withdraw(served)
		_, err = s.d.Run(&Rows{Tokens: []int32{1}, Positions: []int32{0}, Starts: []int32{0, 1}, Tables: []int32{0, 1, 2},
			Adapters: []*Served{served}})
		require.ErrorContains(t, err, "has been withdrawn")
		require.Panics(t, func() { s.d.Withdraw(served) })
		require.Eventually(t, func() bool { runtime.GC(); return collected(kept) }, 10e9, 1e6, "the adapter lives on")
	}
	require.Equal(t, said[0], said[2])
	require.NotEqual(t, said[0], said[1])

	_, err := s.d.Serve(lora.New(must(lora.NewLayout(lora.Defaults(), lora.Dims{Layers: 1, Hidden: 2, Q: 3, KV: 4, Intermediate: 5}))))
	require.True(t, badinput.Is(err), "%v", err)
	bare := newServing(t, p, [][]int32{{1}}, 0)
	_, err = bare.d.Serve(small)
	require.ErrorContains(t, err, "no room for adapters")
	_, err = bare.d.Run(&Rows{Tokens: []int32{1}, Positions: []int32{0}, Starts: []int32{0, 1}, Tables: []int32{0, 1, 2},
		Adapters: []*Served{nil, nil}})
	require.ErrorContains(t, err, "2 adapters for 1 runs")
}

func collected(p weak.Pointer[kernels.LowRank]) bool { return p.Value() == nil }

func must[E any](e E, err error) E {
	if err != nil {
		panic(err)
	}
	return e
}
