package arch

import "maps"

// qwen3 is the family of the dense Qwen3 models: grouped-query attention with a norm on each query and key
// head, and a gated MLP, each behind a norm of its own.
var qwen3 = architecture{
	name:    "Qwen3ForCausalLM",
	read:    readQwen3,
	keys:    qwen3Keys,
	block:   qwen3Block,
	forward: qwen3Forward,
	initial: initial,
}

// rawQwen3 are the keys of config.json that not every decoder has.
type rawQwen3 struct {
	rawWindow
	HiddenAct     string `json:"hidden_act"`
	AttentionBias bool   `json:"attention_bias"`
}

func readQwen3(text []byte) (Config, error) {
	own := rawQwen3{rawWindow: unnamedWindow()}
	c, err := readDecoder(text, &own, absent{})
	if err != nil {
		return Config{}, err
	}
	c.AttentionBias = own.AttentionBias
	if err := checkSiLU(own.HiddenAct); err != nil {
		return Config{}, err
	}
	err = own.fromLayer(&c)
	return c, err
}

func qwen3Keys(c Config) map[string]any {
	keys := map[string]any{
		"model_type": "qwen3", "hidden_act": "silu", "attention_bias": c.AttentionBias, "attention_dropout": 0,
		"initializer_range": initialSpread,
	}
	maps.Copy(keys, windowKeys(c))
	return keys
}

func qwen3Block(c Config, l int) []Slot {
	all := []Slot{normSlot(l, "input_layernorm", c.Hidden, "input_layernorm")}
	all = append(all, qkvSlots(c, l, c.AttentionBias)...)
	all = append(all, normSlot(l, "qk_norm", c.Heads.Dim, "self_attn.q_norm", "self_attn.k_norm"))
	all = append(all, oSlots(c, l, c.AttentionBias)...)
	all = append(all, normSlot(l, "post_attention_layernorm", c.Hidden, "post_attention_layernorm"))
	return append(all, mlpSlots(c, l, false)...)
}

// qwen3Forward normalises queries and keys before they are rotated.
func qwen3Forward(c Config, b Blocks) Rows {
	return residual(c, b, func(l int, h Rows) Rows { return b.QKNormRope(At(l, "qk_norm"), h) })
}
