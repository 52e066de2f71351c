package model

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
)

// slot is one weight as the graph uses it: q, k and v are a single matrix there, gate and up another.
type slot struct {
	name   string // "layers.3.qkv"
	vector bool   // a Buffer (norms, biases), else a Matrix
	parts  []part // in the order of the rows
	cols   int
}

// part is one tensor of the model's files: rows of a slot.
type part struct {
	tensor string // "model.layers.3.self_attn.q_proj.weight"
	rows   int
}

func (s slot) rows() int {
	n := 0
	for _, p := range s.parts {
		n += p.rows
	}
	return n
}

func (s slot) size() int { return s.rows() * s.cols }

// shape is the shape of a part in the file.
func (s slot) shape(p part) []int {
	switch {
	case !s.vector:
		return []int{p.rows, s.cols}
	case s.cols == 1: // a bias
		return []int{p.rows}
	}
	return []int{s.cols} // a norm
}

// at names a slot of a layer.
func at(layer int, what string) string { return fmt.Sprintf("layers.%d.%s", layer, what) }

// slots lists every weight of the model, in the order of the forward pass.
func (c Config) slots() []slot {
	all := []slot{{name: "embed_tokens", cols: c.Hidden, parts: []part{{"model.embed_tokens.weight", c.Vocab}}}}
	for l := range c.Layers {
		all = append(all, c.layerSlots(l)...)
	}
	all = append(all, slot{name: "norm", vector: true, cols: c.Hidden, parts: []part{{"model.norm.weight", 1}}})
	if !c.TiedHead {
		all = append(all, slot{name: "lm_head", cols: c.Hidden, parts: []part{{"lm_head.weight", c.Vocab}}})
	}
	return all
}

// headSlot is the name of the slot that the output head reads.
func (c Config) headSlot() string {
	if c.TiedHead {
		return "embed_tokens"
	}
	return "lm_head"
}

func (c Config) layerSlots(l int) []slot {
	h := c.Heads
	tensor := func(what string) string { return fmt.Sprintf("model.layers.%d.%s", l, what) }
	norm := func(what string) slot {
		return slot{name: at(l, what), vector: true, cols: c.Hidden, parts: []part{{tensor(what + ".weight"), 1}}}
	}
	qkv := []part{{"self_attn.q_proj", h.Q * h.Dim}, {"self_attn.k_proj", h.KV * h.Dim}, {"self_attn.v_proj", h.KV * h.Dim}}
	linear := func(name string, cols int, suffix string, parts ...part) slot {
		s := slot{name: at(l, name), vector: suffix == ".bias", cols: cols}
		for _, p := range parts {
			s.parts = append(s.parts, part{tensor(p.tensor + suffix), p.rows})
		}
		return s
	}
	o := part{"self_attn.o_proj", c.Hidden}
	all := []slot{norm("input_layernorm"), linear("qkv", c.Hidden, ".weight", qkv...)}
	if c.AttentionBias {
		all = append(all, linear("qkv_bias", 1, ".bias", qkv...))
	}
	all = append(all,
		slot{name: at(l, "qk_norm"), vector: true, cols: h.Dim, parts: []part{{tensor("self_attn.q_norm.weight"), 1}, {tensor("self_attn.k_norm.weight"), 1}}},
		linear("o", h.OutWidth(), ".weight", o))
	if c.AttentionBias {
		all = append(all, linear("o_bias", 1, ".bias", o))
	}
	return append(all,
		norm("post_attention_layernorm"),
		linear("gate_up", c.Hidden, ".weight", part{"mlp.gate_proj", c.Intermediate}, part{"mlp.up_proj", c.Intermediate}),
		linear("down", c.Intermediate, ".weight", part{"mlp.down_proj", c.Hidden}))
}

// group is a packed linear and the adapter targets that share its input.
type group struct {
	slot    string
	targets []lora.Target
}

var groups = []group{
	{"qkv", []lora.Target{lora.Q, lora.K, lora.V}},
	{"o", []lora.Target{lora.O}},
	{"gate_up", []lora.Target{lora.Gate, lora.Up}},
	{"down", []lora.Target{lora.Down}},
}

// leafOperand describes an allocated weight to the graph.
func (s slot) leafOperand(buf kernels.Buffer, mat kernels.Matrix) *operand {
	o := &operand{buf: buf, mat: mat, width: s.cols}
	if s.vector && len(s.parts) > 1 && s.cols > 1 {
		for i := range s.parts {
			o.aux = append(o.aux, buf.Slice(i*s.cols, (i+1)*s.cols))
		}
	}
	return o
}
