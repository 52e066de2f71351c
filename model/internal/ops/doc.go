// Package ops has the operations of decoder-only transformers and their gradients, each one fused kernel of
// the backend. A gradient is an operation of its own, and an operation has one output, so that a program
// computes only the gradients that are needed.
package ops

import (
	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Run is the input of a graph's operations that changes from run to run, besides the leaves.
type Run struct {
	Spans          kernels.Spans // the packed sequences
	Asked          Targets
	InvTemp        float32 // of the distribution of the log-probabilities
	Loss           kernels.Loss
	HostLoss       HostLoss // computes the loss in place of the kernel, or nil
	WithoutAdapter bool     // ignore an attached adapter: compute with the frozen weights alone

	Paged kernels.Paged // the sequences of a decoder
	Draws int           // how many rows a decoder draws from
	Served
}

// Targets says which log-probabilities the head and the loss compute. A row may have several targets, each of which makes a pair, and
// several tokens may share a pair. The first pair of each row comes in the place of the row, further ones after all rows; the first
// token of each pair comes in the place of the pair, further ones after all pairs. Their gradients are added to the first.
type Targets struct {
	Again         kernels.Buffer // I32 [Tokens − T]: the rows of further pairs, then the pairs of further tokens
	Pairs, Tokens int
}

// rows are the rows of the pairs after the T rows of the batch; nil: none.
func (a Targets) rows(T int) kernels.Buffer {
	if a.Pairs == T {
		return nil
	}
	return a.Again.Slice(0, a.Pairs-T)
}

// pairs are the pairs of the tokens after the pairs; nil: none.
func (a Targets) pairs(T int) kernels.Buffer {
	if a.Tokens == a.Pairs {
		return nil
	}
	return a.Again.Slice(a.Pairs-T, a.Tokens-T)
}

// gradient is one term of a Diff; nil if an input needs none.
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

// gradientOf is the gradient that operation o computes from in.
func gradientOf(o *program.Op, in ...*gorgonia.Node) gradient {
	return func() (*gorgonia.Node, error) { return gorgonia.ApplyOp(o, in...) }
}

// gradientIf is gradientOf if the parameter is trained, otherwise nil.
func gradientIf(trainable bool, o *program.Op, in ...*gorgonia.Node) gradient {
	if !trainable {
		return nil
	}
	return gradientOf(o, in...)
}

// passThrough is a gradient that passes through unchanged.
func passThrough(dout *gorgonia.Node) gradient {
	return func() (*gorgonia.Node, error) { return dout, nil }
}
