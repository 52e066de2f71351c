package configs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Settings that depend on another one follow it, unless they are set.
func TestFollow(t *testing.T) {
	load := func(words string) *Config {
		c, err := Load(Source{Overrides: strings.Fields(words)})
		require.NoError(t, err, words)
		return c
	}
	full := load("train=full")
	require.Equal(t, []any{0, 0.0, []string{}}, []any{full.LoRARank, full.LoRAAlpha, full.LoRATargets})
	require.Equal(t, []float64{0.8, 1.2}, []float64{load("loss=ppo").ClipLow, load("loss=ppo").ClipHigh})
	require.Equal(t, []float64{0, 5}, []float64{load("loss=cispo clip_high=5").ClipLow, load("loss=cispo clip_high=5").ClipHigh})
	require.Equal(t, []float64{0.9997, 1.0004}, []float64{load("loss=gspo").ClipLow, load("loss=gspo").ClipHigh})
	require.Equal(t, []float64{0, 2, 5}, []float64{load("").TISCap, load("tis=token").TISCap, load("tis=token tis_cap=5").TISCap})
	require.Equal(t, []string{"k3", "k1", "k2"}, []string{load("kl_coef=1").KLEstimator, load("kl_coef=1 kl_in=reward").KLEstimator,
		load("kl_coef=1 kl_in=reward kl_estimator=k2").KLEstimator})
	require.Equal(t, []int{0, 20, 7}, []int{load("max_tokens=100").OverlongBuffer, load("max_tokens=100 overlong_penalty=1").OverlongBuffer,
		load("overlong_penalty=1 overlong_buffer=7").OverlongBuffer})
	require.Equal(t, 4, load("refill=true").MaxRefills)
	require.Equal(t, 9, load("refill=true max_refills=9").MaxRefills)
	require.Equal(t, 0.2, load("reward=fraction format_coef=0.2").FormatCoef)
	require.Equal(t, "correct=1", load("reward=weights reward_weights=correct=1").RewardWeights)
	require.Equal(t, 1e-6, load("comparator=tolerant").Tolerance)
	require.Equal(t, 0, load("eval_every=-1").KeepBest)
	require.Equal(t, []int{0, 2, 4, 8}, []int{load("eval_samples=0").EvalK, load("eval_samples=2").EvalK, load("eval_samples=9").EvalK,
		load("eval_samples=9 eval_k=8").EvalK})
	require.Equal(t, "t.jsonl", load("data=x.jsonl test_data=t.jsonl").TestData)
	require.Equal(t, []any{"", -1}, []any{load("data=x.jsonl").TestData, load("data=x.jsonl").EvalEvery}, "no problems are held out")
	require.Equal(t, 32, load("train=lora").LoRARank)

	write(t,
		"version: 1\nextends: defaults\ntrain: full\nschedule: linear\nscheduler_total_steps: 9\nrefill: true\nsandbox: fusion\n"+
			"sandbox_url: http://x\nreward: custom\nreward_file: r.py\n")
	c, err := Load(Source{File: "c.yaml",
		Overrides: strings.Fields("train=lora schedule=constant refill=false sandbox=local reward=correct")})
	require.NoError(t, err)
	d := Defaults()
	d.Sandbox = "local"
	require.Equal(t, &d, c)
}
