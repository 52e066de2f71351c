package program

import (
	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Graph is a computation over symbolic rows, with the operand of each leaf.
type Graph struct {
	*gorgonia.ExprGraph
	Leaves  map[*gorgonia.Node]*Operand
	Outputs gorgonia.Nodes // what is read after a run
	// Grads are the gradients of the trainable leaves, in the order in which they are computed.
	Grads []ParamGrad
	// Narrow has gradients read the outputs marked with Op.Halve in bf16, so that keeping them takes half the memory. The backend must be
	// a kernels.Narrower. The forward pass continues with the numbers in f32, with the same bits.
	Narrow bool
	// Rounder stores outputs marked with Op.Rounded as rounded rows if all operations that read them round them, with the same bits.
	// nil: all rows are f32.
	Rounder kernels.RowRounder
}

// Graphs caches graphs by their purpose, for planning, which compiles the same graph for batches of several sizes.
type Graphs map[any]*Graph

// GraphsFor is an empty cache for a ledger, and nil for other backends: a program that runs does not need its graph any more.
func GraphsFor(b kernels.Backend) Graphs {
	if _, plans := b.(*kernels.Ledger); plans {
		return Graphs{}
	}
	return nil
}

// Once returns the cached graph, or writes it.
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
