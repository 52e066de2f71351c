package grpo

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
)

// Every later release must replay a recorded run to the same bytes. So the policy after two steps is recorded here, for settings with
// different computations: a change here changes all runs recorded with such settings.
func TestTheBitsOfARunAreKept(t *testing.T) {
	race.SkipCovered(t)
	if runtime.GOARCH != "amd64" || strings.Contains(backend(t, 1).Name(), "portable") {
		t.Skip("written down where there are fused multiply-adds of amd64; other processors may round otherwise")
	}
	for _, c := range []struct{ trained, words string }{
		{"7a23e3e017fc65c9", "order=serial"},
		{"063de1e91f6e3d0e", "order=tiles"},
		{"033ee0c933775c8a", "order=serial precision=bf16 kv_cache_dtype=f32 adapter_precision=f32"},
		{"e93b7b2b79108e36", "order=tiles precision=bf16 kv_cache_dtype=bf16 adapter_precision=bf16"},
		{"64a0e9bbe591e755", "order=serial train=full lora_rank=0 learning_rate=0.001"},
		{"5992b5639088dbd1", "order=serial quantize=nf4"},
		{"550589f37c97ae09", "order=tiles share_prefixes=false recompute=blocks"},
		{"72aa26f9e1f14f14", "order=serial loss=ppo clip_low=0.8 clip_high=1.2 num_iterations=2 advantage=std reduction=token_mean"},
		{"9ee9741e413568ce", "order=serial kl_coef=0.1 entropy_coef=0.01 weight_decay=0.1 grad_clip_norm=0.5 temperature=0.8"},
		{"fc7f6896fb702ca3", "order=serial pipeline=full refill=true max_refills=2 schedule=linear scheduler_total_steps=9 warmup_steps=1"},
	} {
		t.Run(c.words, func(t *testing.T) {
			tr, l := setup{words: append(strings.Fields(c.words), "max_steps=2", "eval_every=-1")}.open(t)
			run(t, tr)
			require.Equal(t, c.trained, l.metrics[1].Trained[:16])
		})
	}
}
