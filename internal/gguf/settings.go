package gguf

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
)

// Our own keys: what other readers compute or omit, and this package needs to read a model back.
const (
	keyRope  = "grpo.rope_scaling" // the scaling as in config.json, from which rope_freqs.weight was made
	keyDType = "grpo.torch_dtype"
)

// check refuses a model that other readers would compute differently.
func (f *family) check(c model.Config) error {
	refuse := func(format string, args ...any) error {
		return badinput.Errorf("%s, which the architecture %s of the format does not compute; type --format safetensors",
			fmt.Sprintf(format, args...), f.name)
	}
	s := c.RopeScaling
	switch {
	case c.AttentionBias && f != &llama:
		return refuse("the model has attention_bias")
	case s.Type == "llama3" && f != &llama:
		return refuse("the model has a rope_scaling of type llama3")
	case s.Type == "yarn" && s.Exact:
		return refuse("the model has truncate=false in its rope_scaling")
	case s.Type == "yarn" && (s.BetaFast != 32 || s.BetaSlow != 1): // the format has keys for both, but readers ignore them for these models
		return refuse("the model has beta_fast=%g and beta_slow=%g in its rope_scaling, and not 32 and 1", s.BetaFast, s.BetaSlow)
	case f == &qwen2 && c.Heads.Q*c.Heads.Dim != c.Hidden:
		return refuse("num_attention_heads · head_dim is %d where hidden_size %d is meant", c.Heads.Q*c.Heads.Dim, c.Hidden)
	case f != &gemma2:
		return nil
	case !c.TiedHead:
		return refuse("the model has an output head of its own (tie_word_embeddings=false)")
	case c.ScoreCap == 0 || c.LogitCap == 0:
		return refuse("the model has no attn_logit_softcapping or no final_logit_softcapping")
	}
	for l := range c.Layers {
		if c.Window > 0 && c.Sliding[l] != (l%2 == 0) {
			return refuse("layer %d differs from the others (layer_types)", l)
		}
	}
	scalar := float64(c.Heads.Dim)
	if c.Layers == 46 { // by which readers recognise the largest of the family
		scalar = float64(c.Hidden / c.Heads.Q)
	}
	if c.QueryScalar != 0 && c.QueryScalar != scalar {
		return refuse("query_pre_attn_scalar is %g where %g is meant", c.QueryScalar, scalar)
	}
	return nil
}

// context is the number of positions for readers of the format, with a note if it is less than the model's. Except for Gemma 2,
// readers ignore sliding windows, so only what fits into one window is the same.
func (f *family) context(c model.Config) (positions int, note string) {
	if f == &gemma2 || c.Window == 0 || c.Window >= c.MaxPositions {
		return c.MaxPositions, ""
	}
	return c.Window, fmt.Sprintf("the model's sliding window of %d tokens is not part of the format: its context is %d tokens there, not %d",
		c.Window, c.Window, c.MaxPositions)
}

// Positions is the number of positions of a model in a file.
func Positions(c model.Config) int {
	f := families[c.Architecture]
	if f == nil {
		return c.MaxPositions
	}
	n, _ := f.context(c)
	return n
}

// settings are the keys of a model's shape.
func (f *family) settings(c model.Config, t Type) []Pair {
	positions, _ := f.context(c)
	pairs := []Pair{
		{"general.architecture", f.name}, {"general.type", "model"},
		{"general.file_type", kinds[t].file}, {"general.quantization_version", uint32(2)},
	}
	add := func(key string, value any) { pairs = append(pairs, Pair{f.name + "." + key, value}) }
	for _, n := range []struct {
		key   string
		value int
	}{
		{"context_length", positions}, {"embedding_length", c.Hidden}, {"block_count", c.Layers}, {"feed_forward_length", c.Intermediate},
		{"attention.head_count", c.Heads.Q}, {"attention.head_count_kv", c.Heads.KV}, {"attention.key_length", c.Heads.Dim},
		{"attention.value_length", c.Heads.Dim}, {"vocab_size", c.Vocab}, {"rope.dimension_count", c.Heads.Dim},
	} {
		add(n.key, uint32(n.value))
	}
	add("attention.layer_norm_rms_epsilon", c.Eps)
	add("rope.freq_base", float32(c.RopeTheta))
	if f == &gemma2 {
		window := c.Window
		if window == 0 {
			window = c.MaxPositions
		}
		add("attention.sliding_window", uint32(window))
		add("attn_logit_softcapping", c.ScoreCap)
		add("final_logit_softcapping", c.LogitCap)
	}
	if c.DType != "" {
		pairs = append(pairs, Pair{keyDType, c.DType})
	}
	return append(pairs, f.scaling(c)...)
}

// scaling are the keys of the rotary embedding's scaling.
func (f *family) scaling(c model.Config) []Pair {
	s, prefix := c.RopeScaling, f.name+".rope.scaling."
	switch s.Type {
	case "linear":
		return []Pair{{prefix + "type", "linear"}, {prefix + "factor", float32(s.Factor)}}
	case "yarn":
		return []Pair{
			{prefix + "type", "yarn"}, {prefix + "factor", float32(s.Factor)}, {prefix + "original_context_length", uint32(s.Original)},
			{prefix + "yarn_beta_fast", float32(s.BetaFast)}, {prefix + "yarn_beta_slow", float32(s.BetaSlow)},
			{prefix + "attn_factor", float32(s.Magnitude / yarnMagnitude(s.Factor))},
		}
	case "llama3":
		text, _ := json.Marshal(map[string]any{"rope_type": "llama3", "factor": s.Factor, "low_freq_factor": s.LowFactor,
			"high_freq_factor": s.HighFactor, "original_max_position_embeddings": s.Original}) // numbers and strings can always be encoded
		return []Pair{{keyRope, string(text)}}
	}
	return nil
}

// yarnMagnitude is the factor of cosines and sines that readers use for yarn, unless attn_factor changes it.
func yarnMagnitude(factor float64) float64 { return 1 + 0.1*math.Log(factor) }

// factors are the divisors of the frequencies; nil if readers compute them.
func factors(c model.Config) []float32 {
	if c.RopeScaling.Type != "llama3" {
		return nil
	}
	plain := c
	plain.RopeScaling = model.Config{}.RopeScaling
	without, with := plain.Frequencies(), c.Frequencies()
	divisors := make([]float32, len(with))
	for i := range with {
		divisors[i] = float32(without[i] / with[i])
	}
	return divisors
}

// Config is the configuration of the model in a file.
func (f *File) Config() (model.Config, error) {
	keys, err := f.configKeys()
	if err != nil {
		return model.Config{}, err
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return model.Config{}, badinput.Errorf("%s: %w", f.Path, err)
	}
	c, err := model.ParseConfig(text)
	if err != nil {
		return c, badinput.Errorf("%s: %w", f.Path, err)
	}
	return c, f.checkFactors(c)
}

// checkFactors checks that the divisors in the file are those of its scaling.
func (f *File) checkFactors(c model.Config) error {
	want := factors(c)
	p, there := f.tensors[ropeFactor]
	if !there && want == nil {
		return nil
	}
	if !there || p.kind != F32 || len(p.shape) != 1 || p.shape[0] != len(want) {
		return badinput.Errorf("%s: %s does not go with %s", f.Path, ropeFactor, keyRope)
	}
	got := make([]float32, len(want))
	p.kind.decode(got, f.mapping.Bytes[p.from:p.to])
	for i := range got {
		if got[i] != want[i] {
			return badinput.Errorf("%s: %s: element %d is %g, but %s makes it %g", f.Path, ropeFactor, i, got[i], keyRope, want[i])
		}
	}
	return nil
}
