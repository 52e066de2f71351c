package program

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// reading is one of the two forms of a value of the forward pass if the graph is Narrow.
type reading uint8

const (
	// exact is the value as the forward pass computed it. Values marked with Keep are recomputed from such values.
	exact reading = iota
	// rounded is the value that gradients read: in bf16 if it is marked with Halve; if it is always recomputed, what is computed from rounded
	// values. It is the same whether a value was kept or recomputed, so that no bit depends on that.
	rounded
)

// differs is the reading of a node that is used for reading r: exact unless the node's two readings differ.
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

// narrow adds the rounding of a node's value to the steps: right after the step that computes it, so that its f32 memory is free from
// there on; with recomputation of blocks, here.
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

// widen converts a bf16 value to f32, for operations that cannot read bf16.
func (s *Schedule) widen(v int) int {
	if w, ok := s.wide[v]; ok {
		return w
	}
	w := s.add(value{op: widened(s.values[v].op)})
	s.steps = append(s.steps, step{out: w, in: []int{v}})
	s.wide[v] = w
	return w
}

// narrowed converts the output of an operation to bf16. It copies the planes.
func narrowed(o *Op) *Op {
	return &Op{Name: fmt.Sprintf("%s, to bf16", o.Name), Inputs: 1, Width: o.Width, Aux: o.Aux,
		Run: func(x *Execution, out *Operand, in []*Operand) {
			kernels.Narrow(x.B, out.Buf, in[0].Buf, x.T*o.Width)
			copyPlanes(x, o, out, in[0])
		}}
}

// widened converts such an output back to f32.
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
