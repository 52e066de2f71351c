package model

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/model/internal/adapted"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
	"github.com/seed-7879b91d/grpo/model/internal/ops"
)

// builder implements the operations that forward passes are made of.

var _ arch.Blocks = (*builder)(nil)

func (b *builder) Embed() *gorgonia.Node {
	o := ops.Embed(b.cfg.Vocab, b.cfg.Hidden, b.full())
	return b.apply(o, b.inputRows("tokens", &b.inputs.tokens), b.weight("embed_tokens"))
}

func (b *builder) Norm(slot string, x *gorgonia.Node) *gorgonia.Node {
	return b.apply(ops.RMSNorm(slot, b.cfg.Hidden, b.cfg.Norm(), b.full()), x, b.weight(slot))
}

// Linear is the product with a packed weight, plus a bias if the model has one, plus the adapter's branch, or those of the served adapters.
func (b *builder) Linear(layer int, name string, x *gorgonia.Node) *gorgonia.Node {
	s := b.weights.slots[arch.At(layer, name)]
	in := gorgonia.Nodes{x, b.weight(s.Name)}
	bias := b.weights.has(s.Name + "_bias")
	if bias {
		in = append(in, b.weight(s.Name+"_bias"))
	}
	if !b.serving && b.adapter != nil && b.adapter.branches[s.Name] != nil {
		return b.adapted(s, layer == 0 && name == "qkv", bias, in)
	}
	l := ops.Linear{What: s.Name, N: s.Rows(), K: s.Cols, Bias: bias, Trainable: b.full(), Factors: b.weights.precision.Cached()}
	y := b.apply(l.Op(), in...)
	if b.serving {
		return b.apply(ops.Corrected(&b.inputs.run, s.Name, adapted.LinearIndex(layer, name), l.N, l.K), y, x)
	}
	return y
}

// adapted is Linear with the adapter's branch in the same operation. A decoder has too few rows for rounding them first to pay.
func (b *builder) adapted(s arch.Slot, first, bias bool, in gorgonia.Nodes) *gorgonia.Node {
	br, rank := b.adapter.branches[s.Name], b.adapter.Config.Rank
	l := ops.Adapted{What: s.Name, N: s.Rows(), K: s.Cols, Rank: rank, Scale: b.adapter.Scale(), Bias: bias, First: first,
		Factors: b.adapter.precision.Cached(), Windows: br.windows,
		Rounds: b.cache == nil && ops.RoundsRows(b.graph.Rounder, b.weights.operands[s.Name].Mat, br.a.Mat, br.windows)}
	in = append(in, b.param(s.Name+".lora_A", rank*len(br.windows), s.Cols, &br.a, br.gradA))
	for i, w := range br.windows {
		in = append(in, b.param(fmt.Sprintf("%s.lora_B.%d", s.Name, i), w.N, rank, &br.b[i], br.gradB[i]))
	}
	return b.apply(l.Op(&b.inputs.run), in...)
}

func (b *builder) QKNormRope(slot string, qkv *gorgonia.Node) *gorgonia.Node {
	return b.apply(ops.QKNormRope(slot, b.cfg.Attn(0), b.cfg.Eps, b.full()), qkv, b.weight(slot), b.angles())
}

func (b *builder) Rope(what string, qkv *gorgonia.Node) *gorgonia.Node {
	return b.apply(ops.Rope(what, b.cfg.Attn(0)), qkv, b.angles())
}

// angles is the rotary table of the rows, the same in all layers.
func (b *builder) angles() *gorgonia.Node {
	if b.rope == nil {
		dim := b.cfg.Heads.Dim
		b.rope = b.apply(ops.RopeTable(b.cfg.RopeScale(), dim), b.inputRows("positions", &b.inputs.positions),
			b.leaf("frequencies", 1, dim/2, &b.weights.frequencies))
	}
	return b.rope
}

// Attention is the one operation that differs between packed sequences and a decoder's KV cache.
func (b *builder) Attention(layer int, qkv *gorgonia.Node) *gorgonia.Node {
	if b.cache != nil {
		return b.apply(ops.PagedAttention(&b.inputs.run, layer, b.cfg.Attn(layer), b.cache), qkv)
	}
	return b.apply(ops.Attention(&b.inputs.run, arch.At(layer, "attention"), b.cfg.Attn(layer), b.kv), qkv)
}

func (b *builder) SwiGLU(what string, gateUp *gorgonia.Node) *gorgonia.Node {
	return b.apply(ops.SwiGLU(what, b.cfg.Intermediate), gateUp)
}

func (b *builder) GeGLU(what string, gateUp *gorgonia.Node) *gorgonia.Node {
	return b.apply(ops.GeGLU(what, b.cfg.Intermediate), gateUp)
}

func (b *builder) Scale(what string, x *gorgonia.Node, factor float32) *gorgonia.Node {
	return b.apply(ops.Scale(what, b.cfg.Hidden, factor), x)
}

func (b *builder) Add(what string, x, branch *gorgonia.Node) *gorgonia.Node {
	return b.apply(ops.Add(what, b.cfg.Hidden, false), x, branch)
}

// AddBlock is the Add that ends a block: its result is never recomputed (activation checkpointing).
func (b *builder) AddBlock(what string, x, branch *gorgonia.Node) *gorgonia.Node {
	return b.apply(ops.Add(what, b.cfg.Hidden, true), x, branch)
}

func (b *builder) head(hidden *gorgonia.Node, gradients bool) *gorgonia.Node {
	o := ops.LogProb(&b.inputs.run, b.cfg.Vocab, b.cfg.Hidden, b.cfg.LogitCap, gradients, b.full())
	hidden = b.apply(ops.TargetRows(&b.inputs.run, b.cfg.Hidden), hidden)
	return b.apply(o, hidden, b.weight(b.cfg.HeadSlot()), b.inputRows("targets", &b.inputs.targets))
}
