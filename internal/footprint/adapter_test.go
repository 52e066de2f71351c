package footprint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/lora"
)

// Matrices of other targets may be as large: an adapter is held to the targets that the settings name, and not to sizes alone.
func TestAnAdapterOfOtherTargetsIsRefused(t *testing.T) {
	d := lora.Dims{Layers: 2, Hidden: 16, Q: 16, KV: 8, Intermediate: 24}
	cfg := configs.Defaults()
	cfg.LoRARank, cfg.LoRAAlpha = 4, 8
	layout, err := lora.NewLayout(lora.Config{Rank: 4, Alpha: 8, Targets: []lora.Target{lora.Up, lora.K}}, d)
	require.NoError(t, err)
	cfg.Adapter = t.TempDir()
	require.NoError(t, lora.New(layout).Save(cfg.Adapter, "base"))
	cfg.LoRATargets = []string{"up_proj", "k_proj"}
	require.NoError(t, CheckAdapter(&cfg, d))
	cfg.LoRATargets = []string{"v_proj", "gate_proj"}
	require.ErrorContains(t, CheckAdapter(&cfg, d), "type lora_rank=4 lora_alpha=8 lora_targets=k_proj,up_proj")
}
