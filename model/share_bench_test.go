package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
)

// grouped are completions of prompts, all of random tokens.
func grouped(vocab, prompts, completions, prompt, completion int) (datums []Datum) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func(n int) []int32 {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(random.IntN(vocab))
		}
		return tokens
	}
	for range prompts {
		asked := some(prompt)
		for range completions {
			tokens := append(slices.Clone(asked), some(completion)...)
			datums = append(datums, NewDatum(tokens, prompt, make([]float32, len(tokens)-1), float32(random.NormFloat64())))
		}
	}
	return datums
}

// BenchmarkGroups trains on groups of completions, with their prompts once and over again.
func BenchmarkGroups(b *testing.B) {
	narrow, err := arch.ShapeNamed("qwen3-0.6b")
	require.NoError(b, err)
	tiny, err := arch.ShapeNamed("tiny")
	require.NoError(b, err)
	narrow.Layers, narrow.Vocab = 1, 16384
	for _, c := range []struct {
		name                                           string
		cfg                                            Config
		prompts, completions, prompt, completion, rows int
	}{
		{"tiny", tiny, 8, 16, 512, 256, 4608},
		{"tiny", tiny, 8, 16, 512, 256, 1024},
		{"tiny", tiny, 8, 16, 128, 64, 512},
		{"tiny", tiny, 8, 4, 512, 256, 2048},
		{"tiny", tiny, 4, 8, 256, 512, 4352},
		{"0.6b, one layer", narrow, 2, 16, 512, 256, 4608},
	} {
		be := backendtest.CPU(b, cpu.Options{})
		w, err := randomWeights(be, c.cfg, 1, Options{})
		require.NoError(b, err)
		p := newPolicy(be, c.cfg, w, nothing{}, Options{MaxRows: c.rows})
		layout, err := lora.NewLayout(lora.Config{Rank: 16, Alpha: 16, Targets: lora.AllTargets()}, p.LoRADims())
		require.NoError(b, err)
		a := lora.New(layout)
		a.Init(1)
		require.NoError(b, p.Attach(a))
		datums := grouped(c.cfg.Vocab, c.prompts, c.completions, c.prompt, c.completion)
		for _, share := range []bool{false, true} {
			p.SharePrefixes = share
			name := fmt.Sprintf("%s/%dx%d of %d+%d in %d/share=%v", c.name, c.prompts, c.completions, c.prompt, c.completion, c.rows, share)
			b.Run(name, func(b *testing.B) {
				var stats Stats
				before := cputime.Used()
				for b.Loop() {
					if stats, err = p.Accumulate(b.Context(), datums, importanceSampling); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(stats.Shared), "rows-shared")
				b.ReportMetric((cputime.Used()-before).Seconds()/float64(b.N), "cpu-s/op") // which the load of the machine changes least
			})
		}
		require.NoError(b, be.Close())
	}
}
