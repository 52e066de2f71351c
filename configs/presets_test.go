package configs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every preset is valid, and says what it is for.
func TestPresets(t *testing.T) {
	require.Subset(t, Presets(), []string{DefaultPreset, defaultsName, "tiny_smoke", "qwen3_0.6b", "qwen3_4b_h100", "4090_qwen3"})
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
	_, err := Load(Source{Preset: "qwen3_4b"})
	require.EqualError(t, err,
		`preset "qwen3_4b" is not known; expected 4090_qwen3, defaults, qwen3_0.6b, qwen3_4b_h100, tiny or tiny_smoke; `+
			`a file of your own is --config-file FILE`)
}
