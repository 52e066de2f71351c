package program

import (
	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Graph is a computation written down over symbolic rows, with what each leaf stands for.
type Graph struct {
	*gorgonia.ExprGraph
	Leaves  map[*gorgonia.Node]*Operand
	Outputs gorgonia.Nodes // what is read after a run
	// Grads are the gradients of the trainable leaves, in the order in which they are computed.
	Grads []ParamGrad
	// Narrow has gradients read what an Op marks with Halve as numbers of bf16: what waits for them takes half the memory. The backend
	// must be a kernels.Narrower. The forward pass goes on with the numbers in f32, and nothing of it changes by a bit.
	Narrow bool
	// Rounder has what an Op marks with Rounded, and is only multiplied by operations that round it, as rounded rows, to the same bits.
	// nil: all rows are of f32.
	Rounder kernels.RowRounder
}

// Graphs are those that were written already, by what they are compiled to. Where programs are only planned, one is compiled for batches
// of several sizes.
type Graphs map[any]*Graph

// GraphsFor are none yet on a ledger, and nil elsewhere: a program that runs needs its graph no more.
func GraphsFor(b kernels.Backend) Graphs {
	if _, plans := b.(*kernels.Ledger); plans {
		return Graphs{}
	}
	return nil
}

// Once writes a graph that is not there.
func (k Graphs) Once(of any, write func() (*Graph, error)) (*Graph, error) {
	if g := k[of]; g != nil {
		return g, nil
	}
	g, err := write()
	if err == nil && k != nil {
		k[of] = g
	}
	return g, err
}

// ParamGrad is the gradient of a parameter and the memory that it is added to.
type ParamGrad struct {
	Node *gorgonia.Node
	Dest kernels.Buffer
}

// NewGraph is an empty graph.
func NewGraph(name string) *Graph {
	return &Graph{
		ExprGraph: gorgonia.NewGraph(gorgonia.WithGraphName(name)),
		Leaves:    map[*gorgonia.Node]*Operand{},
	}
}
