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
	Asked   Asked
	InvTemp float32 // of the distribution that log-probabilities are of
	Loss    kernels.Loss
	OwnLoss OwnLoss // computes the loss in place of the kernel, or nil
	Bare    bool    // an attached adapter says nothing: the numbers are those of the frozen weights alone

	Paged kernels.Paged // the sequences of a decoder
	Draws int           // rows that a decoder draws from
	Served
}

// Asked says what the head and the loss are about. A row may be asked for several targets, each of which makes a pair, and
// several tokens may be of one pair. Rows are followed by further pairs, and pairs by further tokens; what comes from one of
// these is added to the first.
type Asked struct {
	Again         kernels.Buffer // I32 [Tokens − T]: the rows of further pairs, then the pairs of further tokens
	Pairs, Tokens int
}

// rows are those of the pairs beyond the T rows of the batch; nil: none.
func (a Asked) rows(T int) kernels.Buffer {
	if a.Pairs == T {
		return nil
	}
	return a.Again.Slice(0, a.Pairs-T)
}

// pairs are those of the tokens beyond the pairs; nil: none.
func (a Asked) pairs(T int) kernels.Buffer {
	if a.Tokens == a.Pairs {
		return nil
	}
	return a.Again.Slice(a.Pairs-T, a.Tokens-T)
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
