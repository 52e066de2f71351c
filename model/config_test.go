package model

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// edited is the golden model's config.json with keys replaced; a nil value removes the key.
func edited(t testing.TB, changes map[string]any) []byte {
	t.Helper()
	text, err := os.ReadFile(goldenDir("qwen3-tied", "config.json"))
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
				c.slots()
			}
		})
		require.Zero(t, c.Heads.Q%c.Heads.KV)
	})
}

func FuzzDatum(f *testing.F) {
	f.Add([]byte(`{"tokens":[1,2,3],"ob_len":1,"logprobs":[0,-1],"advantage":0.5}`))
	f.Add([]byte(`{"tokens":[1],"ob_len":9,"logprobs":[],"advantage":1e40}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d Datum
		if json.Unmarshal(text, &d) != nil {
			return
		}
		n := len(d.Tokens)
		require.Positive(t, n)
		for _, m := range []int{len(d.Targets), len(d.OldLogProbs), len(d.Advantages), len(d.Mask)} {
			require.Equal(t, n, m)
		}
	})
}

func TestDatumsAreReadAndChecked(t *testing.T) {
	var d Datum
	require.NoError(t, json.Unmarshal([]byte(`{"tokens":[5,6,7,8],"ob_len":2,"logprobs":[0,-1,-2],"advantage":0.5}`), &d))
	require.Equal(t, Datum{Tokens: []int32{5, 6, 7}, Targets: []int32{6, 7, 8}, OldLogProbs: []float32{0, -1, -2},
		Advantages: []float32{0, 0.5, 0.5}, Mask: []bool{false, true, true}}, d)
	require.Equal(t, 2, d.Trainable())

	for message, text := range map[string]string{
		"tokens: found 1, expected at least 2":       `{"tokens":[1],"ob_len":1,"logprobs":[],"advantage":0}`,
		"logprobs: found 1 for 3 tokens, expected 2": `{"tokens":[1,2,3],"ob_len":1,"logprobs":[0],"advantage":0}`,
		"ob_len: found 0, expected 1 to 2":           `{"tokens":[1,2,3],"ob_len":0,"logprobs":[0,0],"advantage":0}`,
		"ob_len: found 3, expected 1 to 2":           `{"tokens":[1,2,3],"ob_len":3,"logprobs":[0,0],"advantage":0}`,
	} {
		require.EqualError(t, json.Unmarshal([]byte(text), &d), message)
	}
	c := Config{Vocab: 10, MaxPositions: 3}
	good := func() Datum { return NewDatum([]int32{1, 2, 3, 4}, 1, []float32{-1, -1, -1}, 1) }
	require.NoError(t, good().Check(c))
	for message, spoil := range map[string]func(*Datum){
		"datum: 2 targets for 3 tokens":                   func(d *Datum) { d.Targets = d.Targets[:2] },
		"datum: 1 mask for 3 tokens":                      func(d *Datum) { d.Mask = d.Mask[:1] },
		"token 10 at position 1, expected 0 to 9":         func(d *Datum) { d.Tokens = []int32{1, 10, 2} },
		"datum: target -2 at position 2, expected 0 to 9": func(d *Datum) { d.Targets = []int32{1, 2, -2} },
		"datum: log-probability NaN and advantage 1 at position 0, expected finite numbers": func(d *Datum) {
			d.OldLogProbs[0] = float32(math.NaN())
		},
	} {
		d := good()
		spoil(&d)
		err := d.Check(c)
		require.EqualError(t, err, message)
		require.True(t, badinput.Is(err))
	}
	long := NewDatum(make([]int32, 5), 1, make([]float32, 4), 1)
	require.EqualError(t, long.Check(c), "sequence of 4 tokens, expected at most 3 positions")
}

func TestPackKeepsEveryTokenOnce(t *testing.T) {
	var datums []Datum
	for i, n := range []int{5, 3, 9, 2, 7, 20, 1} {
		tokens := make([]int32, n+1)
		for k := range tokens {
			tokens[k] = int32(100*i + k)
		}
		datums = append(datums, NewDatum(tokens, 1, make([]float32, n), 1))
	}
	for _, r := range []Reduction{Sum, TokenMean, SequenceMean} {
		seen := map[int32]int{}
		weight := 0.0
		for _, b := range Pack(datums, 10, r) {
			require.True(t, b.Rows() <= 10 || len(b.Sequences) == 1)
			for k := range b.Tokens {
				seen[b.Tokens[k]]++
				require.Equal(t, b.Tokens[k]+1, b.Targets[k])
				weight += float64(b.Weights[k])
			}
			for s, i := range b.Sequences {
				require.Equal(t, datums[i].Tokens, b.Tokens[b.Starts[s]:b.Starts[s+1]])
				require.Equal(t, int32(0), b.Positions[b.Starts[s]])
			}
		}
		require.Len(t, seen, 47)
		for token, n := range seen {
			require.Equal(t, 1, n, token)
		}
		require.InDelta(t, map[Reduction]float64{Sum: 47, TokenMean: 1, SequenceMean: 1}[r], weight, 1e-5)
	}
}
