package model

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/seed-7879b91d/grpo/kernels"
)

// graph is an architecture written down over symbolic rows, with what each leaf stands for.
type graph struct {
	*gorgonia.ExprGraph
	leaves map[*gorgonia.Node]*operand
	result *gorgonia.Node // log-probabilities, or the hidden rows that a decoder draws from
	loss   *gorgonia.Node // nil in a graph that does not train

	// grads are the gradients of the trainable leaves, from the last layer to the first: the order in
	// which the backward pass meets them.
	grads []paramGrad
}

// paramGrad is a node and the place in the gradient slab that it is added to: a trainable leaf
// before differentiation, its gradient after.
type paramGrad struct {
	node *gorgonia.Node
	dest kernels.Buffer
}

// inputs are the leaves that change from batch to batch.
type inputs struct {
	tokens, positions, targets input // I32
	old, advantage, weight     input // F32
}

// builder writes an architecture's graph. The first failure sticks, so that an architecture reads as
// the formulas do.
type builder struct {
	cfg     Config
	weights *Weights
	adapter *Adapter // nil: the bare model
	inputs  *inputs
	cache   kernels.Cache // of a decoder; else nil

	graph      *graph
	trainables []paramGrad
	rope       *gorgonia.Node // shared by all layers
	err        error
}

// full reports whether the base weights themselves are trained.
func (b *builder) full() bool { return b.weights.Grads != nil }

// apply adds one operation to the graph.
func (b *builder) apply(o *op, in ...*gorgonia.Node) *gorgonia.Node {
	if b.err != nil {
		return nil
	}
	n, err := gorgonia.ApplyOp(o, in...)
	if err != nil {
		b.err = fmt.Errorf("build graph: %s: %w", o.name, err)
	}
	return n
}

// leaf is the node of an operand that exists before the program runs. Asked twice, it is one node.
func (b *builder) leaf(name string, rows, width int, o *operand) *gorgonia.Node {
	if b.err != nil {
		return nil
	}
	n := gorgonia.NewMatrix(b.graph.ExprGraph, tensor.Float32, gorgonia.WithShape(rows, width), gorgonia.WithName(name))
	b.graph.leaves[n] = o
	return n
}

// inputRows is the leaf of a per-row input.
func (b *builder) inputRows(name string, in *input) *gorgonia.Node {
	return b.leaf(name, anyRows, 1, &in.operand)
}

// param is a leaf whose gradient is wanted in dest.
func (b *builder) param(name string, rows, width int, o *operand, dest kernels.Buffer) *gorgonia.Node {
	n := b.leaf(name, rows, width, o)
	for _, t := range b.trainables {
		if t.node == n { // a tied head asks twice
			return n
		}
	}
	b.trainables = append(b.trainables, paramGrad{n, dest})
	return n
}

// weight is the leaf of a base weight.
func (b *builder) weight(name string) *gorgonia.Node {
	s := b.weights.slots[name]
	if b.full() {
		return b.param(name, s.rows(), s.cols, b.weights.operands[name], b.weights.grad(name))
	}
	return b.leaf(name, s.rows(), s.cols, b.weights.operands[name])
}

// scoring writes the graph of the log-probabilities of given targets.
func (b *builder) scoring() (*graph, error) {
	b.begin()
	b.graph.result = b.head(qwen3(b), false)
	return b.graph, b.err
}

// training is scoring with a loss, whose gradients gorgonia derives.
func (b *builder) training() (*graph, error) {
	b.begin()
	b.graph.result = b.head(qwen3(b), true)
	b.differentiate()
	return b.graph, b.err
}

// decoding writes the graph of the hidden rows that tokens are drawn from.
func (b *builder) decoding(rows *input) (*graph, error) {
	b.begin()
	b.graph.result = b.apply(gatherOp(b.cfg.Hidden), qwen3(b), b.inputRows("rows to draw from", rows))
	return b.graph, b.err
}

func (b *builder) begin() {
	b.graph = &graph{
		ExprGraph: gorgonia.NewGraph(gorgonia.WithGraphName(b.cfg.Architecture)),
		leaves:    map[*gorgonia.Node]*operand{},
	}
}

func (b *builder) differentiate() {
	b.graph.loss = b.apply(lossOp(), b.graph.result,
		b.inputRows("old log-probabilities", &b.inputs.old),
		b.inputRows("advantages", &b.inputs.advantage),
		b.inputRows("weights", &b.inputs.weight))
	if b.err != nil {
		return
	}
	wrt := make([]*gorgonia.Node, len(b.trainables))
	for i, t := range b.trainables {
		wrt[i] = t.node
	}
	nodes, err := gorgonia.Grad(b.graph.loss, wrt...)
	if err != nil {
		b.err = fmt.Errorf("differentiate: %w", err)
		return
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		b.graph.grads = append(b.graph.grads, paramGrad{nodes[i], b.trainables[i].dest})
	}
}
