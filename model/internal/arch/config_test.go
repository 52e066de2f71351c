package arch

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// edited is a golden model's config.json with keys replaced; a nil value removes the key.
func edited(t testing.TB, name string, changes map[string]any) []byte {
	t.Helper()
	text, err := os.ReadFile("../../testdata/golden/" + name + "/config.json")
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
	c, err := ParseConfig(edited(t, "qwen3-tied", nil))
	require.NoError(t, err)
	require.Equal(t, Config{Architecture: "Qwen3ForCausalLM", Vocab: 384, Hidden: 64, Intermediate: 160, Layers: 3,
		Heads: kernels.Heads{Q: 4, KV: 2, Dim: 32}, Eps: 1e-6, RopeTheta: 5e6, MaxPositions: 40960, TiedHead: true}, c)

	c, err = ParseConfig(edited(t, "qwen3-tied", map[string]any{"head_dim": nil}))
	require.NoError(t, err)
	require.Equal(t, 16, c.Heads.Dim, "hidden size over heads")

	moved := map[string]any{"rope_type": "default", "rope_theta": 1e4}
	c, err = ParseConfig(edited(t, "qwen3-tied", map[string]any{"rope_theta": nil, "rope_parameters": moved}))
	require.NoError(t, err)
	require.Equal(t, 1e4, c.RopeTheta)

	types := []string{"full_attention", "sliding_attention", "full_attention"}
	c, err = ParseConfig(edited(t, "qwen3-tied", map[string]any{"use_sliding_window": true, "sliding_window": 8, "max_window_layers": nil,
		"layer_types": types}))
	require.NoError(t, err, "layer_types says what max_window_layers would")
	require.Equal(t, []bool{false, true, false}, c.Sliding)
}

// A scaling factor without a type is refused, in either place: ignoring it would give another model.
func TestAFactorWithoutATypeIsRefused(t *testing.T) {
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		_, err := ParseConfig(edited(t, "qwen3-tied", map[string]any{key: map[string]any{"factor": 8.0}}))
		require.EqualError(t, err, key+": found a factor and no rope_type, expected one of default, linear, llama3, yarn")
		require.True(t, badinput.Is(err))
	}
}

// original_max_position_embeddings may be beside the scaling, as transformers 5 reads some models; if it is in both places, they must
// agree.
func TestOriginalPositionsMayStandBesideTheScaling(t *testing.T) {
	const original = "original_max_position_embeddings"
	yarn := map[string]any{"rope_type": "yarn", "factor": 4.0}
	llama3 := map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		for _, scaling := range []map[string]any{yarn, llama3} {
			c, err := ParseConfig(edited(t, "qwen3-tied", map[string]any{key: scaling, original: 4096}))
			require.NoError(t, err)
			require.Equal(t, 4096, c.RopeScaling.Original)
		}
		yarnOf := map[string]any{"rope_type": "yarn", "factor": 4.0, original: 2048}
		_, err := ParseConfig(edited(t, "qwen3-tied", map[string]any{key: yarnOf, original: 4096}))
		require.EqualError(t, err, original+": found 4096, and 2048 in "+key+"; expected one of them")
		require.True(t, badinput.Is(err))
	}
	c, err := ParseConfig(edited(t, "qwen3-tied", map[string]any{original: 4096}))
	require.NoError(t, err)
	require.Zero(t, c.RopeScaling, "without a scaling they say nothing")
}

// If config.json has no window, the default of transformers applies; null means none.
func TestAWindowThatIsNotNamedIsTheFamilys(t *testing.T) {
	for name, window := range map[string]int{"mistral-yarn": 4096, "gemma2-softcap": 4096, "qwen2-bias": 4096, "qwen3-tied": 0} {
		changes := map[string]any{"max_position_embeddings": 4097, "sliding_window": nil, "max_window_layers": 0}
		if name == "qwen2-bias" {
			changes["use_sliding_window"] = true
		}
		c, err := ParseConfig(edited(t, name, changes))
		require.NoError(t, err)
		require.Equal(t, window, c.Window, name)
		changes["sliding_window"] = json.RawMessage("null")
		c, err = ParseConfig(edited(t, name, changes))
		require.NoError(t, err)
		require.Zero(t, c.Window, name)
	}
}

func TestBadConfigsAreRefusedByName(t *testing.T) {
	const known = ", supported: Qwen3ForCausalLM, LlamaForCausalLM, Qwen2ForCausalLM, MistralForCausalLM, Gemma2ForCausalLM"
	scaling := func(pairs ...any) map[string]any {
		keys := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			keys[pairs[i].(string)] = pairs[i+1]
		}
		return map[string]any{"rope_scaling": keys}
	}
	for message, changes := range map[string]map[string]any{
		`architectures: found ["GPT2LMHeadModel"]` + known:                           {"architectures": []string{"GPT2LMHeadModel"}},
		`architectures: found []` + known:                                            {"architectures": nil},
		`hidden_size: found 0, expected 1 to 1048576`:                                {"hidden_size": nil},
		`num_hidden_layers: found -1, expected 1 to 4096`:                            {"num_hidden_layers": -1},
		`num_attention_heads: found 4, expected a multiple of num_key_value_heads 3`: {"num_key_value_heads": 3},
		`num_key_value_heads: found 0, expected 1 to 4096`:                           {"num_key_value_heads": nil},
		`num_attention_heads: found 6, which does not divide hidden_size 64; expected a divisor, or head_dim`: {
			"num_attention_heads": 6, "head_dim": nil},
		`head_dim: found 33, expected an even number`:             {"head_dim": 33},
		`hidden_act: found "gelu", expected "silu"`:               {"hidden_act": "gelu"},
		`rope_theta: missing`:                                     {"rope_theta": nil},
		`rms_norm_eps: found 0, expected a small positive number`: {"rms_norm_eps": 0},
		`max_window_layers: missing, use_sliding_window needs it`: {"use_sliding_window": true, "max_window_layers": nil},
		`sliding_window: found 0, expected at least 1, or null`: {
			"use_sliding_window": true, "max_window_layers": 1, "sliding_window": 0},
		`rope_scaling.factor: missing, type "yarn" needs it`:                           scaling("type", "yarn"),
		`rope_scaling: found type "dynamic", supported: default, linear, llama3, yarn`: scaling("type", "dynamic"),
		`rope_scaling: found rope_type "yarn" and type "linear", expected one`:         scaling("type", "linear", "rope_type", "yarn"),
		`rope_scaling.factor: found 0.5, expected at least 1`:                          scaling("type", "linear", "factor", 0.5),
		`rope_scaling.high_freq_factor: found 4, expected more than low_freq_factor, and that more than 0`: scaling(
			"rope_type", "llama3", "factor", 8.0, "low_freq_factor", 4.0, "high_freq_factor", 4.0, "original_max_position_embeddings", 64),
		`rope_parameters.low_freq_factor: missing, type "llama3" needs it`: {
			"rope_parameters": map[string]any{"rope_type": "llama3", "factor": 8.0}},
		`rope_parameters.partial_rotary_factor: found 0.5, expected 1: partial rotary embedding is not supported`: {
			"rope_parameters": map[string]any{"partial_rotary_factor": 0.5}},
	} {
		_, err := ParseConfig(edited(t, "qwen3-tied", changes))
		require.EqualError(t, err, message)
		require.True(t, badinput.Is(err))
	}
	for message, changes := range map[string]map[string]any{
		`hidden_activation: found "gelu", expected "gelu_pytorch_tanh"`:            {"hidden_activation": "gelu"},
		`query_pre_attn_scalar: missing`:                                           {"query_pre_attn_scalar": nil},
		`query_pre_attn_scalar: found 0, expected more than 0`:                     {"query_pre_attn_scalar": 0},
		`final_logit_softcapping: missing; expected a number, or null for none`:    {"final_logit_softcapping": nil},
		`attn_logit_softcapping: found -1, expected more than 0, or null for none`: {"attn_logit_softcapping": -1},
		`layer_types: found 1, expected one for each of num_hidden_layers 4`:       {"layer_types": []string{"full_attention"}},
		`layer_types: found "linear" of layer 1, supported: full_attention, sliding_attention`: {
			"layer_types": []string{"full_attention", "linear", "", ""}},
		`layer_types: found "sliding_attention" of layer 0 and no sliding_window, expected "full_attention"`: {
			"sliding_window": json.RawMessage("null"), "layer_types": []string{"sliding_attention"}},
		`torch_dtype: found "int8", expected bfloat16, float16 or float32: the embedding's scale is rounded to it`: {"torch_dtype": "int8"},
	} {
		_, err := ParseConfig(edited(t, "gemma2-softcap", changes))
		require.EqualError(t, err, message)
		require.True(t, badinput.Is(err))
	}
	_, err := ReadConfig(t.TempDir())
	require.ErrorContains(t, err, "config.json: no such file or directory; expected a Hugging Face model directory")
}

func TestWhatWouldBePassedOverIsRefused(t *testing.T) {
	for message, changes := range map[string]map[string]any{
		`partial_rotary_factor: found 0.5, expected 1: partial rotary embedding is not supported`: {"partial_rotary_factor": 0.5},
		`rope_parameters: found one for each kind of layer, expected one for all`: {
			"rope_parameters": map[string]any{"full_attention": map[string]any{"rope_theta": 1e6}}},
		`rope_scaling: found beside rope_parameters, which say something else; expected one of them`: {
			"rope_parameters": map[string]any{"rope_theta": 5e6}, "rope_scaling": map[string]any{"type": "linear", "factor": 2.0}},
		`use_bidirectional_attention: found true, expected false`: {"use_bidirectional_attention": true},
	} {
		_, err := ParseConfig(edited(t, "gemma2-softcap", changes))
		require.EqualError(t, err, message)
		require.True(t, badinput.Is(err))
	}
	_, err := ParseConfig(edited(t, "qwen3-tied", map[string]any{"Hidden_Size": 64}))
	require.EqualError(t, err, `not a model configuration: found the key "Hidden_Size", expected hidden_size`)
	_, err = ParseConfig(edited(t, "qwen3-tied", map[string]any{"rope_scaling": map[string]any{"type": "linear", "Factor": 2.0}}))
	require.EqualError(t, err, `rope_scaling: found the key "Factor", expected factor`)
	same := map[string]any{"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}
	c, err := ParseConfig(edited(t, "qwen3-tied", map[string]any{"rope_parameters": same, "rope_scaling": same}))
	require.NoError(t, err)
	require.Equal(t, Scaling{Type: "linear", Factor: 2}, c.RopeScaling)
}

// cases are the golden models; Mistral has none, so its config.json is made here.
var cases = []string{"qwen3-tied", "llama-rope-scaled", "qwen2-bias", "gemma2-softcap", "mistral-yarn"}

// ParseConfig reads what Write writes: for every family, with all its features.
func TestConfigsAreWrittenAsTheyAreRead(t *testing.T) {
	scalings := []map[string]any{nil, {"rope_type": "linear", "factor": 4.0},
		{"type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 1.0},
		{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}
	check := func(name string, changes map[string]any) Config {
		t.Helper()
		c, err := ParseConfig(edited(t, name, changes))
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, c.Write(dir, "bfloat16"))
		again, err := ReadConfig(dir)
		require.NoError(t, err)
		require.Equal(t, c, again, "%s %v", name, changes)
		return c
	}
	for _, name := range cases {
		for _, s := range scalings {
			check(name, map[string]any{"rope_scaling": s})
		}
	}
	c := check("qwen2-bias", map[string]any{"use_sliding_window": true})
	require.Equal(t, []bool{false, true, true}, c.Sliding)
	require.Equal(t, []int{0, 16, 16}, []int{c.Attn(0).Window, c.Attn(1).Window, c.Attn(2).Window})
	c = check("llama-rope-scaled", map[string]any{"attention_bias": true, "mlp_bias": true, "num_key_value_heads": nil,
		"tie_word_embeddings": true})
	require.Equal(t, 4, c.Heads.KV)
	c = check("llama-rope-scaled", map[string]any{"architectures": []string{"MistralForCausalLM"}, "sliding_window": 9, "rope_theta": nil})
	require.Equal(t, []bool{true, true, true}, c.Sliding)
	require.Equal(t, 1e4, c.RopeTheta)
	check("llama-rope-scaled", map[string]any{"architectures": []string{"MistralForCausalLM"}, "sliding_window": 9,
		"layer_types": []string{"full_attention", "sliding_attention", "full_attention"}})
	c = check("gemma2-softcap", map[string]any{"dtype": "float32", "hidden_activation": nil, "hidden_act": "gelu"})
	require.Equal(t, []bool{true, false, true, false}, c.Sliding)
	require.True(t, c.TiedHead)
	require.InDelta(t, 9.79795897, c.embeddingScale(), 1e-6)
	c = check("gemma2-softcap", map[string]any{"layer_types": []string{"full_attention", "sliding_attention", "full_attention",
		"full_attention"}})
	require.Equal(t, []bool{false, true, false, false}, c.Sliding)
	require.Equal(t, float32(9.8125), c.embeddingScale())
}

// The frequencies of each scaling, at a few positions: values computed separately by transformers' formulas.
func TestFrequencies(t *testing.T) {
	c := Config{Heads: kernels.Heads{Q: 1, KV: 1, Dim: 16}, RopeTheta: 1e4}
	plain := c.Frequencies()
	require.InDeltaSlice(t, []float64{1, 0.31622777, 0.1, 0.031622777, 0.01, 0.0031622777, 0.001, 0.00031622777}, plain, 1e-8)
	c.RopeScaling = Scaling{Type: "linear", Factor: 4}
	for i, f := range c.Frequencies() {
		require.InDelta(t, plain[i]/4, f, 1e-12)
	}
	c.RopeScaling = Scaling{Type: "llama3", Factor: 8, Original: 64, LowFactor: 1, HighFactor: 4}
	require.InDeltaSlice(t, []float64{1, 0.24438460, 0.013042256, 0.0039528471, 0.00125}, c.Frequencies()[:5], 1e-6)
	c.RopeScaling = Scaling{Type: "yarn", Factor: 4, Original: 64, BetaFast: 32, BetaSlow: 1, Magnitude: 1.2}
	require.InDeltaSlice(t, []float64{1, 0.23717083, 0.05}, c.Frequencies()[:3], 1e-6)
	require.Equal(t, 1.2, c.RopeScale())
}

func FuzzParseConfig(f *testing.F) {
	f.Add(edited(f, "qwen3-tied", nil))
	f.Add(edited(f, "gemma2-softcap", nil))
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

// In Gemma 2 every other layer has the window, beginning with the first; in Mistral all layers do; in others none.
func TestWhichLayersOfAShapeSlide(t *testing.T) {
	for shape, want := range map[string][]bool{"gemma2-2b/3": {true, false, true}, "mistral-7b/3": {true, true, true}, "qwen3-0.6b/3": nil} {
		c, err := ShapeNamed(shape)
		require.NoError(t, err)
		require.Equal(t, want, c.Sliding, shape)
	}
}

func TestAShapeHasNoMoreLayersThanAModel(t *testing.T) {
	c, err := ShapeNamed("mistral-7b/4096")
	require.NoError(t, err)
	require.Len(t, c.Sliding, 4096)
	_, err = ShapeNamed("mistral-7b/9999999999")
	require.ErrorContains(t, err, "NAME/N for N layers of it, up to 4096")
	require.True(t, badinput.Is(err))
}
