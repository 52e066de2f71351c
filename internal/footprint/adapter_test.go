package footprint

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/lora"
)

// An adapter with other target modules is refused, even if the sizes of its matrices agree.
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

// If the first adapter of a resumed run was moved or removed, the error says what to type.
func TestAnAdapterThatIsGone(t *testing.T) {
	cfg := configs.Defaults()
	require.NoError(t, FindAdapter(&cfg, ""))
	dir := t.TempDir()
	cfg.Adapter, cfg.RunDir = filepath.Join(dir, "gone"), "runs/a b"
	says := "adapter: stat " + cfg.Adapter + "/adapter_config.json: no such file or directory; expected a PEFT adapter directory"
	require.EqualError(t, FindAdapter(&cfg, ""), says)
	require.EqualError(t, FindAdapter(&cfg, "runs/a b/checkpoints/3"), says+"; run runs/a b was begun with it: type grpo run_dir='runs/a b' "+
		"adapter=DIR allow_change=adapter with where it is now, or without DIR where it is no more")
}
