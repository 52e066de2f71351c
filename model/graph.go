package model

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/ops"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// The outputs of the graphs that a builder writes.
const (
	outResult = iota // log-probabilities, or the hidden states that a decoder draws from
	outLoss          // the loss statistics, in a graph that trains
)

// builder writes an architecture's graph. It keeps the first error, so that the code of an architecture reads like its formulas.
type builder struct {
	cfg     Config
	weights *weights
	adapter *adapter // nil: none
	masters *masters // nil: frozen weights
	inputs  *inputs
	cache   kernels.Cache // of a decoder; else nil
	kv      kernels.DType // of keys and values
	serving bool          // a decoder that serves adapters: rows choose theirs at run time

	graph      *program.Graph
	trainables []program.ParamGrad // the leaves to differentiate by
	rope       *gorgonia.Node      // the rotary table, shared by all layers
	err        error
}

// builder starts a graph of the policy with the adapter that is attached now.
func (p *Policy) builder(in *inputs) *builder {
	b := &builder{cfg: p.Config, weights: p.weights, inputs: in, kv: p.Cache.Cached(),
		graph: program.NewGraph(p.Architecture)}
	b.graph.Narrow = p.Precision == BF16 && kernels.Narrows(p.b)
	b.graph.Rounder = kernels.RoundsRows(p.b, p.order)
	switch t := p.trained.(type) {
	case *adapter:
		b.adapter = t
	case *masters:
		b.masters = t
	}
	return b
}

// full reports whether the base weights themselves are trained.
func (b *builder) full() bool { return b.masters != nil }

// apply adds one operation to the graph.
func (b *builder) apply(o *program.Op, in ...*gorgonia.Node) *gorgonia.Node {
	if b.err != nil {
		return nil
	}
	n, err := gorgonia.ApplyOp(o, in...)
	if err != nil {
		b.err = fmt.Errorf("build graph: %s: %w", o.Name, err)
	}
	return n
}

// leaf is the node of an operand that exists before the program runs. For equal names and shapes gorgonia returns the same node.
func (b *builder) leaf(name string, rows, width int, o *program.Operand) *gorgonia.Node {
	if b.err != nil {
		return nil
	}
	n := gorgonia.NewMatrix(b.graph.ExprGraph, tensor.Float32, gorgonia.WithShape(rows, width), gorgonia.WithName(name))
	b.graph.Leaves[n] = o
	return n
}

// inputRows is the leaf of a per-row input.
func (b *builder) inputRows(name string, in *input) *gorgonia.Node {
	return b.leaf(name, program.AnyRows, 1, &in.Operand)
}

// param is a leaf whose gradient is accumulated into dest.
func (b *builder) param(name string, rows, width int, o *program.Operand, dest kernels.Buffer) *gorgonia.Node {
	n := b.leaf(name, rows, width, o)
	for _, t := range b.trainables {
		if t.Node == n { // a tied embedding is used twice
			return n
		}
	}
	b.trainables = append(b.trainables, program.ParamGrad{Node: n, Dest: dest})
	return n
}

// weight is the leaf of a base weight.
func (b *builder) weight(name string) *gorgonia.Node {
	s := b.weights.slots[name]
	if b.full() {
		_, grad := b.masters.within(s)
		return b.param(name, s.Rows(), s.Cols, b.weights.operands[name], grad)
	}
	return b.leaf(name, s.Rows(), s.Cols, b.weights.operands[name])
}

// scoring writes the graph that computes log-probabilities of given targets.
func (b *builder) scoring() (*program.Graph, error) {
	return b.finish(b.head(b.cfg.Forward(b), false))
}

// training writes the graph of scoring with a loss and its gradients.
func (b *builder) training() (*program.Graph, error) {
	if (b.adapter == nil || b.adapter.slab.Grads == nil) && (b.masters == nil || b.masters.slab.Grads == nil) {
		return nil, errNothing()
	}
	logp := b.head(b.cfg.Forward(b), true)
	loss := b.apply(ops.Loss(&b.inputs.run), logp,
		b.inputRows("old log-probabilities", &b.inputs.old),
		b.inputRows("advantages", &b.inputs.advantage),
		b.inputRows("weights", &b.inputs.weight))
	b.differentiate(loss)
	return b.finish(logp, loss)
}

// decoding writes the graph that computes the hidden states of the rows to draw from.
func (b *builder) decoding(rows *input) (*program.Graph, error) {
	gather := ops.Gather(&b.inputs.run, b.cfg.Hidden)
	return b.finish(b.apply(gather, b.cfg.Forward(b), b.inputRows("rows to draw from", rows)))
}

func (b *builder) finish(outputs ...*gorgonia.Node) (*program.Graph, error) {
	b.graph.Outputs = outputs
	return b.graph, b.err
}

// differentiate adds the gradients of all parameters to the graph, from the last layer to the first: in the
// order of the backward pass.
func (b *builder) differentiate(loss *gorgonia.Node) {
	if b.err != nil {
		return
	}
	wrt := make([]*gorgonia.Node, len(b.trainables))
	for i, t := range b.trainables {
		wrt[i] = t.Node
	}
	nodes, err := gorgonia.Grad(loss, wrt...)
	if err != nil {
		b.err = fmt.Errorf("differentiate: %w", err)
		return
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		b.graph.Grads = append(b.graph.Grads, program.ParamGrad{Node: nodes[i], Dest: b.trainables[i].Dest})
	}
}
