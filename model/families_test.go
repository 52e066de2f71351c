package model

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// families are the golden models of architectures other than Qwen3. The windows of 8, in Gemma 2 and Mistral, are shorter than nearly
// every sequence here.
var families = goldenCases[2:]

// Scores have the same bits alone, packed and with shared prefixes, and equal the trainer's; gradients do not depend on recomputation,
// and with shared prefixes only on the order of sums.
func TestOtherFamiliesHoldTheLaws(t *testing.T) {
	race.SkipSerial(t)
	for _, o := range []Options{{}, {Precision: BF16, Cache: BF16}} {
		b := backendtest.CPU(t, cpu.Options{Threads: 2})
		for _, name := range families {
			o.MaxRows, o.Recompute = 300, RecomputeCheap
			p := openGolden(t, b, name, "adapter", o)
			datums := sharedPrefixDatums(rand.New(rand.NewPCG(3, 1)), p.Vocab)
			var sequences [][]int32
			for i := range datums {
				d := &datums[i]
				s := append(slices.Clone(d.Tokens), d.Targets[d.Rows()-1])
				copy(d.Targets, s[1:])
				sequences = append(sequences, s)
			}
			packed, err := p.Score(t.Context(), sequences, 0.8)
			require.NoError(t, err)
			alone, err := p.Score(t.Context(), sequences[:1], 0.8)
			require.NoError(t, err)
			require.Equal(t, packed[0], alone[0], name)
			p.SharePrefixes = true
			shared, err := p.Score(t.Context(), sequences, 0.8)
			require.NoError(t, err)
			require.Equal(t, packed, shared, name)

			for i := range datums {
				datums[i].OldLogProbs = packed[i]
			}
			objective := importanceSampling
			objective.Temperature = 0.8
			together, stats := sharedGradients(t, p, b, datums, true, objective)
			require.Zero(t, stats.MaxDiff, name)
			require.Positive(t, stats.Shared)
			apart, _ := sharedGradients(t, p, b, datums, false, objective)
			require.Less(t, distance(together, apart), map[Precision]float64{F32: 1e-5, BF16: 2e-2}[o.Precision], name)
			o.Recompute = RecomputeBlocks
			again, _ := sharedGradients(t, openGolden(t, b, name, "adapter", o), b, datums, false, objective)
			require.Equal(t, apart, again, name)
		}
		require.NoError(t, b.Close())
	}
}

// A new model of each family is saved, read, fully trained, saved and read again, and stays the same model.
func TestNewModelsOfOtherFamilies(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	var configs []Config
	for _, name := range families {
		c, err := ReadConfig(goldenDir(name))
		require.NoError(t, err)
		c.RopeTheta, c.TiedHead = 1e4, true
		configs = append(configs, c)
	}
	sequence := [][]int32{{1, 2, 3, 4, 95, 0, 17, 5, 5, 80, 81, 82}}
	score := func(p *Policy) []float32 {
		got, err := p.Score(t.Context(), sequence, 1)
		require.NoError(t, err)
		return got[0]
	}
	for _, c := range configs {
		p, err := New(b, c, 1, Options{})
		require.NoError(t, err)
		dir, trained := t.TempDir(), filepath.Join(t.TempDir(), "trained")
		require.NoError(t, p.SaveModel(dir))
		frozen, err := Open(b, dir, false, Options{})
		require.NoError(t, err)
		require.InDeltaSlice(t, score(p), score(frozen), 0.02, c.Architecture)
		whole, err := Open(b, dir, true, Options{})
		require.NoError(t, err)
		require.InDeltaSlice(t, score(frozen), score(whole), 1e-5, c.Architecture)
		require.NoError(t, whole.Save(trained, dir))
		again, err := Open(b, trained, true, Options{})
		require.NoError(t, err)
		require.Equal(t, score(whole), score(again), "%s: f32 files of a model that was published in bf16", c.Architecture)
	}
}

// A config.json that contradicts the tensors is refused, with both numbers.
func TestConfigsThatContradictTheTensors(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	for message, c := range map[string]struct {
		name string
		key  string
		to   any
	}{
		`vocab_size is 350, but tensor "model.embed_tokens.weight" has shape [352 64], which makes it 352`: {"qwen2-bias", "vocab_size", 350},
		`hidden_size is 32, but tensor "model.embed_tokens.weight" has shape [352 64], which makes it 64`:  {"qwen2-bias", "hidden_size", 32},
		`num_attention_heads · head_dim is 64, but tensor "model.layers.0.self_attn.q_proj.weight" has shape [128 96], which makes it 128`: {
			"gemma2-softcap", "head_dim", 16},
		`num_key_value_heads · head_dim is 16, but tensor "model.layers.0.self_attn.k_proj.weight" has shape [32 64], which makes it 32`: {
			"llama-rope-scaled", "num_key_value_heads", 1},
		`intermediate_size is 96, but tensor`:                            {"llama-rope-scaled", "intermediate_size", 96},
		`num_hidden_layers is 2, but the files have tensors of 3 layers`: {"llama-rope-scaled", "num_hidden_layers", 2},
		`tie_word_embeddings is false in config.json, or not there, but the files have no tensor "lm_head.weight"`: {
			"qwen2-bias", "tie_word_embeddings", false},
		`write "tie_word_embeddings": true there if the head is the embedding`: {"qwen2-bias", "tie_word_embeddings", nil},
		`tie_word_embeddings is true, but tensor "lm_head.weight" is not`:      {"llama-rope-scaled", "tie_word_embeddings", true},
		`self_attn.k_proj.bias" is in the files, but a LlamaForCausalLM with this config.json`: {
			"qwen2-bias", "architectures", []string{"LlamaForCausalLM"}},
		`self_attn.k_norm.weight" is in the files, but a LlamaForCausalLM with this config.json`: {
			"qwen3-tied", "architectures", []string{"LlamaForCausalLM"}},
		`tensor "model.layers.0.self_attn.q_norm.weight" is missing`: {
			"llama-rope-scaled", "architectures", []string{"Qwen3ForCausalLM"}},
	} {
		var config map[string]any
		readJSON(t, &config, c.name, "config.json")
		config[c.key] = c.to
		text, err := json.Marshal(config)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
		weights, err := filepath.Abs(goldenDir(c.name, "model.safetensors"))
		require.NoError(t, err)
		require.NoError(t, os.Symlink(weights, filepath.Join(dir, "model.safetensors")))
		_, err = Open(b, dir, false, Options{})
		require.ErrorContains(t, err, message)
		require.True(t, badinput.Is(err), "%v", err)
	}
}

// A model whose config.json does not name the type of its weights computes the same after it was fully trained and saved.
func TestATrainedModelStaysAsPublished(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	dir, trained := t.TempDir(), filepath.Join(t.TempDir(), "trained")
	c, err := ReadConfig(goldenDir("gemma2-softcap"))
	require.NoError(t, err)
	p, err := New(b, c, 1, Options{})
	require.NoError(t, err)
	require.NoError(t, p.SaveModel(dir))
	var config map[string]any
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	delete(config, "torch_dtype")
	text, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
	score := func(dir string) []float32 {
		p, err := Open(b, dir, true, Options{})
		require.NoError(t, err)
		if dir != trained {
			require.NoError(t, p.Save(trained, dir))
		}
		got, err := p.Score(t.Context(), [][]int32{{1, 2, 3, 4, 95, 0, 17}}, 1)
		require.NoError(t, err)
		return got[0]
	}
	require.Equal(t, score(dir), score(trained))
}
