package model

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// A run knows its memory before it begins, and a checkpoint in its middle holds no copy of the model beside that.
func TestAWholeModelIsSavedInLittleMemory(t *testing.T) {
	backendtest.On(t, backendtest.CPU(t, cpu.Options{}), func(t *testing.T, b kernels.Backend) {
		cfg, err := ReadConfig(goldenDir("qwen3-tied"))
		require.NoError(t, err)
		cfg.Vocab = 1 << 16 // nearly all of the model is one matrix
		p, err := New(b, cfg, 1, Options{Precision: F32, Cache: F32})
		require.NoError(t, err)
		params, _, _ := p.Slabs()
		dir, base := t.TempDir(), goldenDir("qwen3-tied")
		for _, c := range []struct {
			what string
			do   func() error
		}{
			{"hash", func() error { _, err := p.Hash(); return err }},
			{"save", func() error { return p.Save(dir, base) }},
			{"restore", func() error { return p.Restore(dir) }},
			{"model", func() error { return p.SaveModel(t.TempDir()) }},
			{"gradients", func() error { return p.SaveGradients(dir + "/gradients.safetensors") }},
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.NoError(t, c.do(), c.what)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(params.Len()), "%s: a quarter of the model", c.what)
		}
	})
}
