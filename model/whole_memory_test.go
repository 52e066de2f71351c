package model

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
)

// memoryGrowth is the growth of Go's memory during do, collected garbage included.
func memoryGrowth(t *testing.T, do func() error) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, do())
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A run's memory is known before it begins, and saving a checkpoint does not copy the model.
func TestAWholeModelIsSavedInLittleMemory(t *testing.T) {
	backendtest.On(t, backendtest.CPU(t, cpu.Options{}), func(t *testing.T, b kernels.Backend) {
		cfg, err := ReadConfig(goldenDir("qwen3-tied"))
		require.NoError(t, err)
		cfg.Vocab = 1 << 16 // nearly all of the model is one matrix
		p, err := New(b, cfg, 1, Options{Precision: F32, Cache: F32})
		require.NoError(t, err)
		params, _, _ := p.Slabs()
		want := make([]float32, params.Len())
		require.NoError(t, b.Download(want, params))
		dir, rounded, base := t.TempDir(), t.TempDir(), goldenDir("qwen3-tied")
		for _, c := range []struct {
			what string
			do   func() error
		}{
			{"hash", func() error { _, err := p.Hash(); return err }},
			{"save", func() error { return p.Save(dir, base) }},
			{"restore", func() error { return p.Restore(dir) }},
			{"model", func() error { return p.SaveModel(rounded) }},
			{"gradients", func() error { return p.SaveGradients(dir + "/gradients.safetensors") }},
		} {
			require.Less(t, memoryGrowth(t, c.do), uint64(params.Len()), "%s: a quarter of the model", c.what)
		}

		// All pieces that went through the host are in their places.
		b.Zero(params)
		require.NoError(t, p.Restore(dir))
		got := make([]float32, params.Len())
		require.NoError(t, b.Download(got, params))
		require.True(t, slices.Equal(want, got))
		m := p.trained.(*masters)
		for dir, most := range map[string]float64{dir: 0, rounded: 1. / 256} {
			set, err := tensorfile.OpenModel(dir)
			require.NoError(t, err)
			defer set.Close()
			tensor, err := set.Tensor("model.embed_tokens.weight")
			require.NoError(t, err)
			at, far := m.offsets[p.HeadSlot()], 0
			for i, x := range tensorfile.Float32s(tensor) {
				if w := float64(want[at+i]); math.Abs(float64(x)-w) > most*math.Abs(w) {
					far++
				}
			}
			require.Zero(t, far)
		}
	})
}

// The plan has room for one copy of the adapter on the host: it is hashed after each step, saved and read in that copy.
func TestAnAdapterIsSavedAndReadInOneCopy(t *testing.T) {
	backendtest.On(t, backendtest.CPU(t, cpu.Options{}), func(t *testing.T, b kernels.Backend) {
		p, err := Open(b, goldenDir("qwen3-tied"), false, Options{Precision: F32, Cache: F32})
		require.NoError(t, err)
		layout, err := lora.NewLayout(lora.Config{Rank: 1024, Alpha: 1, Targets: lora.AllTargets()}, p.LoRADims())
		require.NoError(t, err)
		a := lora.New(layout)
		a.Init(1)
		require.NoError(t, p.Attach(a))
		first, err := p.Hash()
		require.NoError(t, err)
		own, err := p.Adapter()
		require.NoError(t, err)
		dir := t.TempDir()
		require.Less(t, memoryGrowth(t, func() error { _, err := p.Hash(); return err }), uint64(layout.Len()), "a quarter of the adapter")
		require.Less(t, memoryGrowth(t, func() error { return p.Save(dir, goldenDir("qwen3-tied")) }), uint64(layout.Len()))
		require.Less(t, memoryGrowth(t, func() error { return p.Restore(dir) }), uint64(layout.Len()),
			"Restore must not hold a copy of the adapter")
		require.NoError(t, p.SaveGradients(dir+"/gradients.safetensors"))
		require.Equal(t, first, own.Hash(), "Adapter returns a copy")
		require.Equal(t, first, a.Hash())
	})
}
