package program

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// reading is which of its two forms a value of the forward pass is wanted in, where the graph is Narrow.
type reading uint8

const (
	// exact is as the forward pass computed it. What is computed again to be kept is computed from such values.
	exact reading = iota
	// rounded is what gradients read: of a value that is marked with Halve its numbers in bf16; of one that is computed again anyway,
	// what comes of rounded ones. It is the same whether a value was kept or computed again, so that no bit depends on that.
	rounded
)

// differs is the reading that a node is asked in: only those of the forward pass have two, and of them only what is rounded, or is
// computed again from it.
func (s *Schedule) differs(n *gorgonia.Node, r reading) reading {
	if _, inForward := s.forward[n]; r == rounded && s.graph.Narrow && s.inBackward && inForward && s.halves(n) {
		return rounded
	}
	return exact
}

// halves reports whether the readings of a node of the forward pass differ.
func (s *Schedule) halves(n *gorgonia.Node) bool {
	o, ours := n.Op().(*Op)
	if !ours { // a leaf
		return false
	}
	if o.Halve || o.Keep {
		return o.Halve
	}
	if known, ok := s.halved[n]; ok {
		return known
	}
	for _, in := range children(n) {
		if s.halves(in) {
			s.halved[n] = true
			return true
		}
	}
	s.halved[n] = false
	return false
}

// narrow puts the rounding of a node's value on the list: where the forward pass leaves it to the backward pass, right behind what
// computes it, so that it is gone from there on; else here.
func (s *Schedule) narrow(n *gorgonia.Node, o *Op) (int, error) {
	from, err := s.need(n, exact)
	if err != nil {
		return 0, err
	}
	v := s.add(value{op: narrowed(o), half: true})
	at := len(s.steps)
	if s.recompute != RecomputeBlocks {
		for s.steps[at-1].out != from {
			at--
		}
	}
	s.insert(at, step{out: v, in: []int{from}})
	return v, nil
}

// widen gives a value of bf16 in f32, for those who read nothing else.
func (s *Schedule) widen(v int) int {
	if w, ok := s.wide[v]; ok {
		return w
	}
	w := s.add(value{op: widened(s.values[v].op)})
	s.steps = append(s.steps, step{out: w, in: []int{v}})
	s.wide[v] = w
	return w
}

// narrowed is what another operation gives, in bf16. Its planes stay as they are.
func narrowed(o *Op) *Op {
	return &Op{Name: fmt.Sprintf("%s, to bf16", o.Name), Inputs: 1, Width: o.Width, Aux: o.Aux,
		Run: func(x *Execution, out *Operand, in []*Operand) {
			kernels.Narrow(x.B, out.Buf, in[0].Buf, x.T*o.Width)
			copyPlanes(x, o, out, in[0])
		}}
}

// widened is that once more in f32.
func widened(o *Op) *Op {
	return &Op{Name: fmt.Sprintf("%s, and back", o.Name), Inputs: 1, Width: o.Width, Aux: o.Aux,
		Run: func(x *Execution, out *Operand, in []*Operand) {
			kernels.Widen(x.B, out.Buf, in[0].Buf, x.T*o.Width)
			copyPlanes(x, o, out, in[0])
		}}
}

func copyPlanes(x *Execution, o *Op, out, in *Operand) {
	for i, w := range o.Aux {
		x.B.Copy(out.Aux[i], in.Aux[i].Slice(0, x.T*w))
	}
}
