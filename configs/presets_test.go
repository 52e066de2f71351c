package configs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every preset is valid, and has a description.
func TestPresets(t *testing.T) {
	require.Subset(t, Presets(), []string{DefaultPreset, defaultsName, "tiny_smoke", "qwen3_0.6b", "qwen3_1.7b", "qwen3_4b"})
	for _, name := range Presets() {
		c, err := Load(Source{Preset: name})
		require.NoError(t, err, name)
		require.NoError(t, c.Validate(), name)
		if name == defaultsName {
			d := Defaults()
			require.Equal(t, &d, c)
			continue
		}
		text, err := readPreset(name)
		require.NoError(t, err)
		require.Equal(t, "# ", string(text[:2]), "%s starts with what it is for", name)
	}
	for _, name := range Recipes() {
		c, err := Load(Source{Preset: "tiny," + name})
		require.NoError(t, err)
		alone, err := Load(Source{Preset: name})
		require.NoError(t, err)
		require.Equal(t, "tiny", c.Model, "a recipe must not set the model")
		require.Equal(t, []any{alone.Loss, alone.ClipHigh, alone.Advantage, alone.Reduction, alone.KLCoef, alone.KLIn},
			[]any{c.Loss, c.ClipHigh, c.Advantage, c.Reduction, c.KLCoef, c.KLIn})
	}
	c, err := Load(Source{Preset: "tiny,dapo,rloo", Overrides: []string{"refill=false"}})
	require.NoError(t, err)
	require.Equal(t, []any{"leave_one_out", 0.0, 0.03, 19}, []any{c.Advantage, c.ClipHigh, c.KLCoef, c.OverlongBuffer},
		"of two presets the later one counts")
	_, err = Load(Source{Preset: "tiny,"})
	require.ErrorContains(t, err, `preset "" is not known`)
	_, err = Load(Source{Preset: "qwen3_8b"})
	require.EqualError(t, err,
		`preset "qwen3_8b" is not known; expected 4090_gemma2, 4090_llama3, cispo, dapo, defaults, dr_grpo, grpo, gspo, gspo_token, `+
			`llama3.2_1b, qwen2.5_coder_1.5b, qwen2.5_coder_7b, qwen3_0.6b, qwen3_1.7b, qwen3_4b, reinforce_pp, reinforce_pp_baseline, `+
			`rloo, tiny, tiny_heal or tiny_smoke; `+
			`a file of your own is --config-file FILE`)
}

// Presets formerly named after graphics cards are found by their old names, too.
func TestOldNamesOfPresets(t *testing.T) {
	for old, now := range map[string]string{"4090_qwen3": "qwen3_1.7b", "qwen3_4b_h100": "qwen3_4b"} {
		want, err := Load(Source{Preset: now})
		require.NoError(t, err)
		got, err := Load(Source{Preset: old})
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NotContains(t, Presets(), old)
	}
}
