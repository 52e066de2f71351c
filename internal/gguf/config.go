package gguf

import (
	"encoding/json"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// configKeys are the keys of the model's config.json.
func (f *File) configKeys() (map[string]any, error) {
	name, err := f.text("general.architecture")
	if err != nil {
		return nil, err
	}
	fam, err := familyNamed(name)
	if err != nil {
		return nil, badinput.Errorf("%s: %w", f.Path, err)
	}
	table, ok := f.tensors[embedding]
	if !ok || len(table.shape) != 2 {
		return nil, badinput.Errorf("%s: tensor %q is missing, or no matrix", f.Path, embedding)
	}
	keys := map[string]any{
		"architectures": []string{fam.read}, "hidden_act": "silu", "vocab_size": table.shape[0], "tie_word_embeddings": !f.has(head),
	}
	for to, from := range map[string]string{
		"max_position_embeddings": "context_length", "hidden_size": "embedding_length", "num_hidden_layers": "block_count",
		"intermediate_size": "feed_forward_length", "num_attention_heads": "attention.head_count",
		"num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length",
		"rms_norm_eps": "attention.layer_norm_rms_epsilon", "rope_theta": "rope.freq_base",
	} {
		if keys[to], err = f.number(name + "." + from); err != nil {
			return nil, err
		}
	}
	if fam == &llama {
		keys["attention_bias"], keys["mlp_bias"] = f.has("blk.0.attn_output.bias"), f.has("blk.0.ffn_down.bias")
	}
	if fam == &gemma2 {
		if err := f.gemma2Keys(keys); err != nil {
			return nil, err
		}
	}
	return keys, f.scalingKeys(name, keys)
}

// gemma2Keys adds those of Gemma 2.
func (f *File) gemma2Keys(keys map[string]any) (err error) {
	delete(keys, "hidden_act")
	for to, from := range map[string]string{
		"sliding_window": "attention.sliding_window", "attn_logit_softcapping": "attn_logit_softcapping",
		"final_logit_softcapping": "final_logit_softcapping", "query_pre_attn_scalar": "attention.key_length",
	} {
		if keys[to], err = f.number("gemma2." + from); err != nil {
			return err
		}
	}
	if keys["num_hidden_layers"] == 46.0 {
		keys["query_pre_attn_scalar"] = float64(int(keys["hidden_size"].(float64)) / max(1, int(keys["num_attention_heads"].(float64))))
	}
	if dtype, ok := f.pairs[keyDType].(string); ok {
		keys["torch_dtype"] = dtype
	}
	return nil
}

// scalingKeys adds those of the rotary embedding's scaling.
func (f *File) scalingKeys(name string, keys map[string]any) (err error) {
	if text, ok := f.pairs[keyRope].(string); ok {
		keys["rope_scaling"] = json.RawMessage(text)
		return nil
	}
	kind, ok := f.pairs[name+".rope.scaling.type"].(string)
	if !ok || kind == "none" {
		return nil
	}
	scaling := map[string]any{"rope_type": kind}
	keys["rope_scaling"] = scaling
	wanted := map[string]string{"factor": "factor"}
	if kind == "yarn" {
		wanted["original_max_position_embeddings"] = "original_context_length"
		wanted["beta_fast"], wanted["beta_slow"], wanted["attention_factor"] = "yarn_beta_fast", "yarn_beta_slow", "attn_factor"
	}
	for to, from := range wanted {
		if scaling[to], err = f.number(strings.Join([]string{name, "rope.scaling", from}, ".")); err != nil {
			return err
		}
	}
	if kind == "yarn" {
		scaling["attention_factor"] = scaling["attention_factor"].(float64) * yarnMagnitude(scaling["factor"].(float64))
	}
	return nil
}
