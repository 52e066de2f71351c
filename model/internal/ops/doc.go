// Package ops are the operations that decoder-only transformers are made of, each with its gradients: one
// fused kernel of the backend apiece. A gradient is an operation of its own, and an operation has one
// output, so that a program computes no gradient that nobody wants.
package ops

import (
	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Run is what the operations of a graph are told anew for each run, beside the leaves.
type Run struct {
	Spans   kernels.Spans // the packed sequences
	InvTemp float32       // of the distribution that log-probabilities are of
	Loss    kernels.Loss
	OwnLoss OwnLoss // computes the loss in place of the kernel, or nil

	Paged kernels.Paged // the sequences of a decoder
	Draws int           // rows that a decoder draws from
}

// gradient is one term of a Diff: nil, where an input needs none.
type gradient func() (*gorgonia.Node, error)

// gradients collects the terms of all inputs, in order.
func gradients(terms ...gradient) (gorgonia.Nodes, error) {
	out := make(gorgonia.Nodes, len(terms))
	for i, term := range terms {
		if term == nil {
			continue
		}
		n, err := term()
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

// by is the gradient that operation o computes from in.
func by(o *program.Op, in ...*gorgonia.Node) gradient {
	return func() (*gorgonia.Node, error) { return gorgonia.ApplyOp(o, in...) }
}

// byIf is by where the parameter is trained, and nothing elsewhere.
func byIf(trainable bool, o *program.Op, in ...*gorgonia.Node) gradient {
	if !trainable {
		return nil
	}
	return by(o, in...)
}

// same is a gradient that passes through unchanged.
func same(dout *gorgonia.Node) gradient {
	return func() (*gorgonia.Node, error) { return dout, nil }
}
