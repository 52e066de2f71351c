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
