package model

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

var small = Config{Architecture: "Qwen3ForCausalLM", Vocab: 96, Hidden: 64, Intermediate: 128, Layers: 2,
	Heads: kernels.Heads{Q: 4, KV: 2, Dim: 16}, Eps: 1e-6, RopeTheta: 1e4, MaxPositions: 64, TiedHead: true}

// saved makes, saves and opens a new model.
func saved(t *testing.T, seed uint64, cfg Config) (dir string, p *Policy) {
	t.Helper()
	dir = t.TempDir()
	p, err := New(kerneltest.NewReference(), cfg, seed, Options{})
	require.NoError(t, err)
	require.NoError(t, p.SaveModel(dir))
	return dir, p
}

func TestNewModelIsInitialisedAsDocumented(t *testing.T) {
	dir, p := saved(t, 7, small)
	read, err := ReadConfig(dir)
	require.NoError(t, err)
	require.Equal(t, small, read)
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"torch_dtype": "bfloat16"`)

	set, err := tensorfile.OpenModel(dir)
	require.NoError(t, err)
	defer set.Close()
	for _, c := range []struct {
		tensor       string
		mean, spread float64
		shape        []int
	}{
		{"model.embed_tokens.weight", 0, 0.02, []int{96, 64}},
		{"model.layers.0.self_attn.k_proj.weight", 0, 0.02, []int{32, 64}},
		{"model.layers.1.self_attn.o_proj.weight", 0, 0.01, []int{64, 64}},
		{"model.layers.1.mlp.down_proj.weight", 0, 0.01, []int{64, 128}},
		{"model.layers.1.self_attn.q_norm.weight", 1, 0, []int{16}},
		{"model.norm.weight", 1, 0, []int{64}},
	} {
		tensor, err := set.Tensor(c.tensor, c.shape...)
		require.NoError(t, err)
		require.Equal(t, kernels.EncodedBF16, tensor.Encoding)
		require.Equal(t, kernels.EncodedBF16, tensor.Encoding)
		sum, squares, values := 0.0, 0.0, tensorfile.Float32s(tensor)
		for _, x := range values {
			sum += float64(x)
			squares += (float64(x) - c.mean) * (float64(x) - c.mean)
		}
		n := float64(len(values))
		require.InDelta(t, c.mean, sum/n, 4*c.spread/math.Sqrt(n), c.tensor)
		require.InDelta(t, c.spread, math.Sqrt(squares/n), 4*c.spread/math.Sqrt(2*n), c.tensor)
	}

	// The saved model is the one in memory, rounded to 8 bits of precision: the scores hardly differ.
	again, err := Open(kerneltest.NewReference(), dir, false, Options{})
	require.NoError(t, err)
	sequence := [][]int32{{1, 2, 3, 4, 95, 0, 17}}
	want, err := p.Score(t.Context(), sequence, 1)
	require.NoError(t, err)
	got, err := again.Score(t.Context(), sequence, 1)
	require.NoError(t, err)
	require.InDeltaSlice(t, want[0], got[0], 0.01)
}

func TestNewModelDependsOnTheSeedAlone(t *testing.T) {
	weights := func(seed uint64, cfg Config) []byte {
		dir, _ := saved(t, seed, cfg)
		file, err := tensorfile.Open(filepath.Join(dir, tensorfile.SingleName))
		require.NoError(t, err)
		defer file.Close()
		tensor, err := file.Tensor("model.layers.1.self_attn.v_proj.weight")
		require.NoError(t, err)
		return append([]byte(nil), tensor.Bytes...)
	}
	deeper := small
	deeper.Layers, deeper.Vocab = 3, 128
	require.Equal(t, weights(1, small), weights(1, small))
	require.Equal(t, weights(1, small), weights(1, deeper))
	require.NotEqual(t, weights(1, small), weights(2, small))
}

func TestNewModelRefusesWhatCannotBe(t *testing.T) {
	bad := small
	bad.Heads.KV = 3
	_, err := New(kerneltest.NewReference(), bad, 1, Options{})
	require.ErrorContains(t, err, "num_key_value_heads")

	bad = small
	bad.Architecture = "GPT2LMHeadModel"
	_, err = New(kerneltest.NewReference(), bad, 1, Options{})
	require.EqualError(t, err, `architectures: found ["GPT2LMHeadModel"], supported: Qwen3ForCausalLM, `+
		"LlamaForCausalLM, Qwen2ForCausalLM, MistralForCausalLM, Gemma2ForCausalLM")
}
