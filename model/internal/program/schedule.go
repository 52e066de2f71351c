package program

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Recompute says how much of the forward pass the backward pass computes a second time, to save memory:
// activation checkpointing.
type Recompute uint8

const (
	// RecomputeCheap keeps the outputs of matrix products and attention, and computes norms,
	// rotations and activations again: hardly any time.
	RecomputeCheap Recompute = iota
	// RecomputeBlocks keeps only what passes from one block to the next, and runs each block's inside
	// a second time: a third more time for a fraction of the memory.
	RecomputeBlocks
	// RecomputeNone keeps everything. What gradients read rounded, in a graph that is Narrow, is computed again all the same, so
	// that no bit depends on the choice.
	RecomputeNone
)

var recomputeNames = []string{RecomputeCheap: "cheap", RecomputeBlocks: "blocks", RecomputeNone: "none"}

func (r Recompute) String() string { return recomputeNames[r] }

// Set makes r the choice of that name.
func (r *Recompute) Set(name string) error {
	i := slices.Index(recomputeNames, name)
	if i < 0 {
		return fmt.Errorf("found %q, expected none, cheap or blocks", name)
	}
	*r = Recompute(i)
	return nil
}

// Schedule is a graph put in order: a list of steps over values, forward and then backward, in which
// what was not kept is computed again where it is first needed. It does not depend on the number of rows.
type Schedule struct {
	steps  []step
	values []value

	leaves     map[*gorgonia.Node]int    // the value of each leaf
	forward    map[*gorgonia.Node]int    // the value that the forward pass gave each node
	again      [2]map[*gorgonia.Node]int // and the one computed again, or first met, in the backward pass, for each reading
	wide       map[int]int               // what a value in bf16 is in f32
	halved     map[*gorgonia.Node]bool   // whether its two readings differ
	inBackward bool
	recompute  Recompute
	graph      *Graph
}

// value is one thing that is computed, or a leaf.
type value struct {
	op     *Op      // what computes it; nil for a leaf
	leaf   *Operand // where it is, if known beforehand: a leaf, or a place in the gradient slab
	output bool     // read after the run
	half   bool     // it lies there in bf16
	round  bool     // as rounded rows
}

// step computes one value from others.
type step struct {
	out int
	in  []int
}

// NewSchedule puts a graph in order.
func NewSchedule(g *Graph, r Recompute) (*Schedule, error) {
	s := &Schedule{
		graph: g, recompute: r,
		leaves: map[*gorgonia.Node]int{}, forward: map[*gorgonia.Node]int{},
		again: [2]map[*gorgonia.Node]int{{}, {}}, wide: map[int]int{}, halved: map[*gorgonia.Node]bool{},
	}
	for _, n := range g.Outputs {
		v, err := s.need(n, exact)
		if err != nil {
			return nil, err
		}
		s.values[v].output = true
	}
	s.inBackward = true
	for _, p := range g.Grads {
		if err := s.paramGradient(p.Node, p.Dest); err != nil {
			return nil, err
		}
	}
	if g.Rounder != nil {
		s.round()
	}
	return s, nil
}

// need gives the value of a node, putting what computes it at the end of the list if it is not there.
func (s *Schedule) need(n *gorgonia.Node, r reading) (int, error) {
	if leaf, ok := s.graph.Leaves[n]; ok {
		v, ok := s.leaves[n]
		if !ok {
			v = s.add(value{leaf: leaf})
			s.leaves[n] = v
		}
		return v, nil
	}
	r = s.differs(n, r)
	before, inForward := s.forward[n]
	if inForward && r == exact && (!s.inBackward || s.kept(s.values[before].op)) {
		return before, nil
	}
	if v, ok := s.again[r][n]; ok {
		return v, nil
	}
	o, err := lower(n)
	if err != nil {
		return 0, err
	}
	var v int
	switch {
	case r == rounded && o.Halve:
		v, err = s.narrow(n, o)
	case s.inBackward && !inForward:
		v, err = s.compute(o, children(n), rounded, nil)
	default:
		v, err = s.compute(o, children(n), r, nil)
	}
	if s.inBackward {
		s.again[r][n] = v
	} else {
		s.forward[n] = v
	}
	return v, err
}

// kept reports whether an output of the forward pass is still there in the backward pass.
func (s *Schedule) kept(o *Op) bool {
	switch s.recompute {
	case RecomputeNone:
		return true
	case RecomputeBlocks:
		return o.Checkpoint
	}
	return o.Keep
}

// compute puts an operation on the list, after what it needs.
func (s *Schedule) compute(o *Op, in gorgonia.Nodes, r reading, dest *Operand) (int, error) {
	st := step{in: make([]int, len(in))}
	for i, n := range in {
		v, err := s.need(n, r)
		if err != nil {
			return 0, err
		}
		if s.values[v].half && !o.takesHalf(i) {
			v = s.widen(v)
		}
		st.in[i] = v
	}
	st.out = s.add(value{op: o, leaf: dest})
	s.steps = append(s.steps, st)
	return st.out, nil
}

// paramGradient puts the gradient of a parameter on the list. It is accumulated in dest, so where
// gorgonia sums the gradients of a weight that is used twice, both are simply added there.
func (s *Schedule) paramGradient(n *gorgonia.Node, dest kernels.Buffer) error {
	o, ours := n.Op().(*Op)
	if !ours {
		for _, term := range children(n) {
			if err := s.paramGradient(term, dest); err != nil {
				return err
			}
		}
		return nil
	}
	if o.Rows == 0 {
		return fmt.Errorf("model: %s is no gradient of a parameter", o.Name)
	}
	place := &Operand{Buf: dest, Width: o.Width}
	for from, i := 0, 0; i < len(o.Aux); i++ {
		place.Aux = append(place.Aux, dest.Slice(from, from+o.Aux[i]))
		from += o.Aux[i]
	}
	_, err := s.compute(o, children(n), rounded, place)
	return err
}

// insert puts a step on the list before step number at.
func (s *Schedule) insert(at int, st step) { s.steps = slices.Insert(s.steps, at, st) }

func (s *Schedule) add(v value) int {
	s.values = append(s.values, v)
	return len(s.values) - 1
}

// lower gives the operation of a node: ours, or our sum in place of gorgonia's.
func lower(n *gorgonia.Node) (*Op, error) {
	switch o := n.Op().(type) {
	case *Op:
		return o, nil
	case gorgonia.BinaryOp:
		if shape := n.Shape(); len(shape) == 2 && o.String() == "+ false" {
			return sum(shape[1]), nil
		}
	}
	return nil, fmt.Errorf("model: the graph holds an operation of gorgonia's own that has no kernel: %v", n)
}

// children are the inputs of a node, in order.
func children(n *gorgonia.Node) gorgonia.Nodes {
	it := n.Graph().From(n.ID())
	var in gorgonia.Nodes
	for it.Next() {
		in = append(in, it.Node().(*gorgonia.Node))
	}
	return in
}
