package model

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// The parts that architectures are made of. Each names the weights it reads as slots.go does.

func (b *builder) embed() *gorgonia.Node {
	o := embedOp(b.cfg.Vocab, b.cfg.Hidden, b.full())
	return b.apply(o, b.inputRows("tokens", &b.inputs.tokens), b.weight("embed_tokens"))
}

func (b *builder) norm(slot string, x *gorgonia.Node) *gorgonia.Node {
	return b.apply(rmsNormOp(slot, b.cfg.Hidden, b.cfg.Eps, b.full()), x, b.weight(slot))
}

// linear is a packed weight, its bias where the model has one, and what an adapter adds.
func (b *builder) linear(layer int, name string, x *gorgonia.Node) *gorgonia.Node {
	s := b.weights.slots[at(layer, name)]
	l := linearOp{what: s.name, n: s.rows(), k: s.cols, alpha: 1, trainable: b.full()}
	in := gorgonia.Nodes{x, b.weight(s.name)}
	if bias := s.name + "_bias"; b.weights.has(bias) {
		l.bias = true
		in = append(in, b.weight(bias))
	}
	y := b.apply(l.op(), in...)
	if b.adapter == nil {
		return y
	}
	return b.loraBranch(s, b.adapter.branches[s.name], x, y)
}

// loraBranch adds scale · B A x to y, for each target of the group that the adapter has.
func (b *builder) loraBranch(s slot, br *branch, x, y *gorgonia.Node) *gorgonia.Node {
	if br == nil {
		return y
	}
	rank := b.adapter.Config.Rank
	down := linearOp{what: s.name + " lora down", n: rank * len(br.windows), k: s.cols, alpha: b.adapter.Scale(), trainable: true}
	z := b.apply(down.op(), x, b.param(s.name+".lora_A", down.n, down.k, &br.a, br.gradA))
	in := gorgonia.Nodes{y, z}
	for i, w := range br.windows {
		in = append(in, b.param(fmt.Sprintf("%s.lora_B.%d", s.name, i), w.n, rank, &br.b[i], br.gradB[i]))
	}
	up := loraUpOp{what: s.name, width: s.rows(), rank: rank, windows: br.windows}
	return b.apply(up.op(), in...)
}

func (b *builder) qkNormRope(slot string, qkv *gorgonia.Node) *gorgonia.Node {
	if b.rope == nil {
		b.rope = b.apply(ropeTableOp(b.cfg.RopeTheta, b.cfg.Heads.Dim), b.inputRows("positions", &b.inputs.positions))
	}
	return b.apply(qkNormRopeOp(slot, b.cfg.Heads, b.cfg.Eps, b.full()), qkv, b.weight(slot), b.rope)
}

// attention is the one place where packed sequences and a decoder's cached ones differ.
func (b *builder) attention(layer int, qkv *gorgonia.Node) *gorgonia.Node {
	if b.cache != nil {
		return b.apply(pagedAttentionOp(layer, b.cfg.Heads, b.cache), qkv)
	}
	return b.apply(attentionOp(at(layer, "attention"), b.cfg.Heads), qkv)
}

func (b *builder) swiGLU(what string, gateUp *gorgonia.Node) *gorgonia.Node {
	return b.apply(swiGLUOp(what, b.cfg.Intermediate), gateUp)
}

func (b *builder) add(what string, x, branch *gorgonia.Node) *gorgonia.Node {
	return b.apply(addOp(what, b.cfg.Hidden, false), x, branch)
}

// addBlock is add where a block ends: the one value of a block that is always kept.
func (b *builder) addBlock(what string, x, branch *gorgonia.Node) *gorgonia.Node {
	return b.apply(addOp(what, b.cfg.Hidden, true), x, branch)
}

func (b *builder) head(hidden *gorgonia.Node, gradients bool) *gorgonia.Node {
	o := headOp(b.cfg.Vocab, b.cfg.Hidden, gradients, b.full())
	return b.apply(o, hidden, b.weight(b.cfg.headSlot()), b.inputRows("targets", &b.inputs.targets))
}
