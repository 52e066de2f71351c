package arch

import (
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

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
	HiddenAct        string `json:"hidden_act"`
	AttentionBias    bool   `json:"attention_bias"`
	UseSlidingWindow bool   `json:"use_sliding_window"`
}

func readQwen3(text []byte) (Config, error) {
	var own rawQwen3
	c, err := readDecoder(text, &own)
	if err != nil {
		return Config{}, err
	}
	c.AttentionBias = own.AttentionBias
	switch {
	case own.HiddenAct != "silu":
		return Config{}, badinput.Errorf("hidden_act: found %q, expected \"silu\"", own.HiddenAct)
	case own.UseSlidingWindow:
		return Config{}, badinput.Errorf("use_sliding_window: found true, expected false: sliding windows are not supported")
	}
	return c, nil
}

func qwen3Keys(c Config) map[string]any {
	return map[string]any{
		"model_type": "qwen3", "hidden_act": "silu", "attention_bias": c.AttentionBias, "attention_dropout": 0,
		"use_sliding_window": false, "initializer_range": initialSpread,
	}
}

func qwen3Block(c Config, l int) []Slot {
	h := c.Heads
	qkv := []Part{{"self_attn.q_proj", h.Q * h.Dim}, {"self_attn.k_proj", h.KV * h.Dim}, {"self_attn.v_proj", h.KV * h.Dim}}
	o := Part{"self_attn.o_proj", c.Hidden}
	all := []Slot{
		normSlot(l, "input_layernorm", c.Hidden, "input_layernorm"),
		linearSlot(l, "qkv", c.Hidden, qkv...),
	}
	if c.AttentionBias {
		all = append(all, biasSlot(l, "qkv_bias", qkv...))
	}
	all = append(all,
		normSlot(l, "qk_norm", h.Dim, "self_attn.q_norm", "self_attn.k_norm"),
		linearSlot(l, "o", h.OutWidth(), o))
	if c.AttentionBias {
		all = append(all, biasSlot(l, "o_bias", o))
	}
	return append(all,
		normSlot(l, "post_attention_layernorm", c.Hidden, "post_attention_layernorm"),
		linearSlot(l, "gate_up", c.Hidden, Part{"mlp.gate_proj", c.Intermediate}, Part{"mlp.up_proj", c.Intermediate}),
		linearSlot(l, "down", c.Intermediate, Part{"mlp.down_proj", c.Hidden}))
}

// qwen3Forward is a residual stream that attention and the MLP write to, layer by layer.
func qwen3Forward(c Config, b Blocks) Rows {
	x := b.Embed()
	for l := range c.Layers {
		h := b.Norm(At(l, "input_layernorm"), x)
		h = b.Linear(l, "qkv", h)
		h = b.QKNormRope(At(l, "qk_norm"), h)
		h = b.Attention(l, h)
		h = b.Linear(l, "o", h)
		x = b.Add(At(l, "attention"), x, h)

		h = b.Norm(At(l, "post_attention_layernorm"), x)
		h = b.Linear(l, "gate_up", h)
		h = b.SwiGLU(At(l, "mlp"), h)
		h = b.Linear(l, "down", h)
		x = b.AddBlock(At(l, "mlp"), x, h)
	}
	return b.Norm("norm", x)
}

// initial: matrices 0.02, the two of each layer that write to the residual stream 1/sqrt(2·layers) of
// that; norms one, biases zero.
func initial(c Config, s Slot) (mean, spread float64) {
	switch {
	case s.Bias():
		return 0, 0
	case s.Vector:
		return 1, 0
	case s.is("o"), s.is("down"):
		return 0, initialSpread / math.Sqrt(float64(2*c.Layers))
	}
	return 0, initialSpread
}
