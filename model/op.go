package model

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/seed-7879b91d/grpo/kernels"
)

// op is one fused operation as gorgonia sees it: a name, the width of its rows, and how to
// differentiate it; and as our Program sees it: a call of the backend. One Go type serves them all, so
// that an operation is one constructor in one of the op_*.go files.
type op struct {
	name  string // says everything that tells two operations apart: gorgonia merges equal ones
	arity int
	rows  int // rows of the output where it is a parameter's gradient; 0: the rows of the batch
	width int // columns of the output; 0 for the scalar loss

	// wrt tells which inputs a gradient flows to; diff gives those gradients (nil elsewhere).
	wrt  []bool
	diff func(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error)

	// run issues the backend calls. Outputs that are parameter gradients are accumulated, all others
	// written.
	run func(x *execution, out *operand, in []*operand)

	// aux are widths of planes of T rows that run keeps beside the output for the gradient's sake. In
	// the gradient of a packed parameter they divide the output itself.
	aux []int
	// inPlace is the input whose memory the output takes over when nobody needs it afterwards, or -1.
	// Where somebody does, Program copies first if mutates, else gives out memory of its own.
	inPlace int
	mutates bool
	// keep marks an output that costs a matrix product or attention: the backward pass would rather
	// find it than compute it again. checkpoint marks the few that even a pass short of memory keeps.
	keep, checkpoint bool
}

// operand is where a value lies while a program runs. Exactly one of buf and mat is set, but for the
// spans, which have neither.
type operand struct {
	buf   kernels.Buffer   // room for the largest batch × width
	aux   []kernels.Buffer // the planes of op.aux
	width int
	mat   kernels.Matrix
}

// cols is the whole of a value as a window.
func (o *operand) cols() kernels.Cols { return kernels.Whole(o.buf, o.width) }

// window is n columns of a value.
func (o *operand) window(from, n int) kernels.Cols {
	return kernels.Cols{Buf: o.buf, Stride: o.width, From: from, N: n}
}

// execution is what differs from one run of a program to the next.
type execution struct {
	b       kernels.Backend
	T       int
	spans   kernels.Spans
	invTemp float32
	loss    kernels.Loss

	paged kernels.Paged // of a decoder
	draws int           // rows that a decoder draws from
}

// The rest makes op a gorgonia.SDOp.

func (o *op) Arity() int           { return o.arity }
func (o *op) ReturnsPtr() bool     { return false }
func (o *op) CallsExtern() bool    { return true }
func (o *op) OverwritesInput() int { return -1 }
func (o *op) String() string       { return o.name }

// Type takes anything and gives rows of f32: shapes are checked where the graph is built, and inputs
// may be weights of any encoding.
func (o *op) Type() hm.Type {
	types := make([]hm.Type, o.arity+1)
	for i := range o.arity {
		types[i] = hm.TypeVariable('c' + rune(i))
	}
	types[o.arity] = rowsType(o.width)
	return hm.NewFnType(types...)
}

func rowsType(width int) hm.Type {
	if width == 0 {
		return tensor.Float32
	}
	return gorgonia.TensorType{Dims: 2, Of: tensor.Float32}
}

// InferShape: every value has the rows of the batch; one stands for "as many as there are".
func (o *op) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	if o.width == 0 {
		return tensor.ScalarShape(), nil
	}
	if o.rows > 0 {
		return tensor.Shape{o.rows, o.width}, nil
	}
	return tensor.Shape{anyRows, o.width}, nil
}

// anyRows stands for the rows of a batch in gorgonia's shapes; a program serves every number of them.
const anyRows = 2

func (o *op) Do(...gorgonia.Value) (gorgonia.Value, error) {
	return nil, errors.New("model: operations run in a Program, not in a gorgonia machine")
}

func (o *op) WriteHash(h hash.Hash) { fmt.Fprintf(h, "%s/%d", o.name, o.width) }

func (o *op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

func (o *op) DiffWRT(int) []bool { return o.wrt }

func (o *op) SymDiff(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.diff == nil {
		return nil, fmt.Errorf("%s has no gradient", o.name)
	}
	return o.diff(in, out, dout)
}

// grads collects the gradients of an operation's inputs, in order; a nil operation stands for an
// input that needs none.
func grads(terms ...func() (*gorgonia.Node, error)) (gorgonia.Nodes, error) {
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

// grad is the gradient that operation o computes from in.
func grad(o *op, in ...*gorgonia.Node) func() (*gorgonia.Node, error) {
	return func() (*gorgonia.Node, error) { return gorgonia.ApplyOp(o, in...) }
}

// same is a gradient that passes through unchanged.
func same(dout *gorgonia.Node) func() (*gorgonia.Node, error) {
	return func() (*gorgonia.Node, error) { return dout, nil }
}
