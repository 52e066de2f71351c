package sampler

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

// golden is a small model with float64 references; see the README beside it.
func golden(name ...string) string {
	return filepath.Join(append([]string{"..", "model", "testdata", "golden"}, name...)...)
}

// inEveryPrecision is backendtest.OnEach for properties that hold in every precision, and in tile order.
func inEveryPrecision(t *testing.T, test func(t *testing.T, b kernels.Backend, o model.Options)) {
	backendtest.OnEach(t, func(t *testing.T, b kernels.Backend) { test(t, b, model.Options{}) })
	for name, o := range map[string]model.Options{"bf16": {Precision: model.BF16}, "bf16 cache": {Cache: model.BF16}} {
		t.Run("cpu "+name, func(t *testing.T) {
			backendtest.On(t, backendtest.CPU(t, cpu.Options{}), func(t *testing.T, b kernels.Backend) { test(t, b, o) })
		})
	}
	t.Run("cpu in tiles", func(t *testing.T) {
		everything := model.Options{Precision: model.BF16, Cache: model.BF16, AdapterPrecision: model.BF16}
		b := backendtest.CPU(t, cpu.Options{Order: kernels.Tiles})
		backendtest.On(t, b, func(t *testing.T, b kernels.Backend) { test(t, b, everything) })
	})
}

func open(t testing.TB, b kernels.Backend, name, adapter string) *model.Policy {
	t.Helper()
	return openWith(t, b, name, adapter, model.Options{})
}

func openWith(t testing.TB, b kernels.Backend, name, adapter string, o model.Options) *model.Policy {
	t.Helper()
	p, err := model.Open(b, golden(name), false, o)
	require.NoError(t, err)
	if adapter != "" {
		a, err := lora.Load(golden(name, adapter), p.LoRADims())
		require.NoError(t, err)
		require.NoError(t, p.Attach(a))
	}
	return p
}

// engine is an Engine with as many drafts as possible, whatever they cost.
func engine(t testing.TB, p *model.Policy, o Options) *Engine {
	t.Helper()
	e, err := New(p, o)
	require.NoError(t, err)
	e.drafts.eager = true
	return e
}

func sampleAll(t testing.TB, e *Engine, requests []Request) []Rollout {
	t.Helper()
	rollouts, err := e.Sample(t.Context(), requests, Events{})
	require.NoError(t, err)
	require.Equal(t, e.Blocks, e.FreeBlocks(), "every block is free again")
	return rollouts
}

// requests are prompts of various lengths, some with several completions.
func requests(vocab int, temperature float32, n int) []Request {
	rng := rand.New(rand.NewPCG(5, 6))
	all := make([]Request, n)
	for i := range all {
		prompt := make([]int32, []int{1, 2, 5, 31, 32, 33, 40, 64, 70}[i%9])
		for k := range prompt {
			prompt[k] = int32(rng.IntN(vocab))
		}
		all[i] = Request{Prompt: prompt, N: 1 + i%4, Key: Key{Seed: 9, Step: 3, Problem: i},
			Params: Params{Temperature: temperature, MaxTokens: 1 + 7*(i%7), StopTokens: []int32{int32(i % vocab), 7}}}
	}
	return all
}
