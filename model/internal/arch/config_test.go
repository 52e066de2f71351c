package arch

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// edited is the golden model's config.json with keys replaced; a nil value removes the key.
func edited(t testing.TB, changes map[string]any) []byte {
	t.Helper()
	text, err := os.ReadFile("../../testdata/golden/qwen3-tied/config.json")
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(text, &config))
	for k, v := range changes {
		if v == nil {
			delete(config, k)
		} else {
			config[k] = v
		}
	}
	text, err = json.Marshal(config)
	require.NoError(t, err)
	return text
}

func TestConfigIsRead(t *testing.T) {
	c, err := ParseConfig(edited(t, nil))
	require.NoError(t, err)
	require.Equal(t, Config{Architecture: "Qwen3ForCausalLM", Vocab: 384, Hidden: 64, Intermediate: 160, Layers: 3,
		Heads: kernels.Heads{Q: 4, KV: 2, Dim: 32}, Eps: 1e-6, RopeTheta: 5e6, MaxPositions: 40960, TiedHead: true}, c)

	c, err = ParseConfig(edited(t, map[string]any{"head_dim": nil}))
	require.NoError(t, err)
	require.Equal(t, 16, c.Heads.Dim, "hidden size over heads")

	moved := map[string]any{"rope_type": "default", "rope_theta": 1e4}
	c, err = ParseConfig(edited(t, map[string]any{"rope_theta": nil, "rope_parameters": moved}))
	require.NoError(t, err)
	require.Equal(t, 1e4, c.RopeTheta)
}

func TestBadConfigsAreRefusedByName(t *testing.T) {
	const scaled = ", expected null: scaled rotary embeddings are not supported"
	llama3 := map[string]any{"rope_parameters": map[string]any{"rope_type": "llama3"}}
	for message, changes := range map[string]map[string]any{
		`architectures: found ["LlamaForCausalLM"], supported: Qwen3ForCausalLM`:     {"architectures": []string{"LlamaForCausalLM"}},
		`architectures: found [], supported: Qwen3ForCausalLM`:                       {"architectures": nil},
		`hidden_size: found 0, expected 1 to 1048576`:                                {"hidden_size": nil},
		`num_hidden_layers: found -1, expected 1 to 4096`:                            {"num_hidden_layers": -1},
		`num_attention_heads: found 4, expected a multiple of num_key_value_heads 3`: {"num_key_value_heads": 3},
		`head_dim: found 33, expected an even number`:                                {"head_dim": 33},
		`hidden_act: found "gelu", expected "silu"`:                                  {"hidden_act": "gelu"},
		`rope_theta: missing`: {"rope_theta": nil},
		`rms_norm_eps: found 0, expected a small positive number`:                           {"rms_norm_eps": 0},
		`use_sliding_window: found true, expected false: sliding windows are not supported`: {"use_sliding_window": true},
		`rope_scaling: found {"type":"yarn"}` + scaled:                                      {"rope_scaling": map[string]any{"type": "yarn"}},
		`rope_scaling: found {"rope_type":"llama3"}` + scaled:                               llama3,
	} {
		_, err := ParseConfig(edited(t, changes))
		require.EqualError(t, err, message)
		require.True(t, badinput.Is(err))
	}
	_, err := ReadConfig(t.TempDir())
	require.ErrorContains(t, err, "config.json: no such file or directory; expected a Hugging Face model directory")
}

func FuzzParseConfig(f *testing.F) {
	f.Add(edited(f, nil))
	f.Add([]byte(`{"architectures":["Qwen3ForCausalLM"],"rope_parameters":{"rope_theta":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err != nil {
			require.True(t, badinput.Is(err), "%v", err)
			return
		}
		require.NotPanics(t, func() {
			if c.Layers < 8 {
				c.Slots()
			}
		})
		require.Zero(t, c.Heads.Q%c.Heads.KV)
	})
}
