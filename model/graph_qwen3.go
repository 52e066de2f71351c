package model

import "gorgonia.org/gorgonia"

// qwen3 is the architecture: a residual stream that attention and a gated MLP write to, layer by
// layer, each behind its own norm. It returns the stream after the final norm.
func qwen3(b *builder) *gorgonia.Node {
	x := b.embed()
	for l := range b.cfg.Layers {
		h := b.norm(at(l, "input_layernorm"), x)
		h = b.linear(l, "qkv", h)
		h = b.qkNormRope(at(l, "qk_norm"), h)
		h = b.attention(l, h)
		h = b.linear(l, "o", h)
		x = b.add(at(l, "attention"), x, h)

		h = b.norm(at(l, "post_attention_layernorm"), x)
		h = b.linear(l, "gate_up", h)
		h = b.swiGLU(at(l, "mlp"), h)
		h = b.linear(l, "down", h)
		x = b.addBlock(at(l, "mlp"), x, h)
	}
	return b.norm("norm", x)
}
