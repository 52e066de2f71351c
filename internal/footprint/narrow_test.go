package footprint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// With rows stored in bf16, a training batch needs little more than half the memory per token.
func TestWhatWaitsInBF16IsPlanned(t *testing.T) {
	race.SkipSerial(t)
	dir, c := sparseModel(t, "qwen3-4b")
	const rows = 16384
	activations := func(precision string) int {
		cfg, err := configs.Load(configs.Source{Preset: "qwen3_4b", Overrides: []string{"precision=" + precision,
			"kv_cache_dtype=" + precision, "recompute=cheap", "max_rows=16384", "max_tokens=8192", "lora_rank=32"}})
		require.NoError(t, err)
		r := Run{Config: cfg, Backend: kerneltest.NewReference(), Dir: dir, MaxPrompt: prompt, Trains: true}
		p, err := r.plan(roomsOf(r.Backend))
		require.NoError(t, err)
		return p.BytesOf("activations")
	}
	wide, narrow := activations("f32"), activations("bf16")
	t.Logf("%d tokens of Qwen3-4B: %.1f GB of activations in f32, %.1f in bf16; %d and %d bytes a token and layer", rows,
		float64(wide)/1e9, float64(narrow)/1e9, wide/rows/c.Layers, narrow/rows/c.Layers)
	require.Less(t, 100*narrow, 56*wide)
}
