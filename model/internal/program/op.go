package program

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Op is one fused operation as gorgonia sees it: a name, the width of its rows, and how to
// differentiate it; and as a Program sees it: a call of the backend. One Go type serves them all, so
// that an operation is one function that returns an Op.
type Op struct {
	Name   string // must identify the operation with all its parameters: gorgonia merges equal ones
	Inputs int    // how many
	Rows   int    // rows of the output if it is the gradient of a parameter; 0: the rows of the batch
	Width  int    // columns of the output; 0 for a scalar
	Sums   int    // of a scalar: how many F64 numbers it writes

	// WRT says to which inputs gradients flow; Diff makes those gradients (nil for the others).
	WRT  []bool
	Diff func(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error)

	// Run issues the backend calls. Outputs that are parameter gradients are accumulated, all others
	// written.
	Run func(x *Execution, out *Operand, in []*Operand)
	// Host, if set, runs on the host after Run: it may wait for the backend, read what Run wrote and write
	// something else. A device that replays the list of calls must stop there.
	Host func(x *Execution, out *Operand, in []*Operand) error

	// Aux are the widths of planes, further outputs of T rows that Run writes for the gradient. In the gradient
	// of a packed parameter they divide the output itself.
	Aux []int
	// InPlace is the input, counted from 1, whose memory the output reuses if the input is not needed
	// afterwards; 0: none. If it is needed, the output has its own memory; with Mutates the program copies the
	// input to it first.
	InPlace int
	Mutates bool
	// Keep marks an output of a matrix product or attention, which is kept for the backward pass rather than
	// recomputed. Checkpoint marks the few that are kept even if memory is short.
	Keep, Checkpoint bool
	// Halve marks a kept output that gradients may read rounded to bf16: see Graph.Narrow. HalfInputs are the inputs, counted from 1,
	// that Run can read in bf16 as well as in f32.
	Halve      bool
	HalfInputs []int
	// Rounded marks an output that Run can write as rounded rows, and RoundedInputs are the inputs, counted from 1, that Run rounds before
	// it multiplies them, and so can read as rounded rows: see Graph.Rounder.
	Rounded       bool
	RoundedInputs []int
	// PlaneInputs are the inputs, counted from 1, of which Run reads only the planes.
	PlaneInputs []int
}

// Execution is the context of a run: the backend, and the number of rows of the batch.
type Execution struct {
	B kernels.Backend
	T int
}

// Operand is the memory of a value: a Buffer or a Matrix. A vector that packs several has a plane for
// each.
type Operand struct {
	Buf   kernels.Buffer   // room for the largest batch × Width; F64 [Sums] of a scalar
	Aux   []kernels.Buffer // the planes of Op.Aux
	Width int
	Mat   kernels.Matrix
}

// Cols is the whole of a value as a window.
func (o *Operand) Cols() kernels.Cols { return kernels.Whole(o.Buf, o.Width) }

// AnyRows stands for the rows of a batch in gorgonia's shapes; a program serves every number of them.
const AnyRows = 2

// sum stands in for the node with which gorgonia sums the gradients of a value that has two consumers.
func sum(width int) *Op {
	return &Op{Name: "sum of gradients", Inputs: 2, Width: width, InPlace: 1,
		Run: func(x *Execution, out *Operand, in []*Operand) { x.B.Add(out.Buf, in[0].Buf, in[1].Buf, x.T*width) }}
}

// takesHalf reports whether an operation can read an input in bf16.
func (o *Op) takesHalf(input int) bool {
	return slices.Contains(o.HalfInputs, input+1) || o.readsPlanes(input)
}

// readsPlanes reports whether it reads only the planes of an input.
func (o *Op) readsPlanes(input int) bool { return slices.Contains(o.PlaneInputs, input+1) }

// The rest makes Op a gorgonia.SDOp, an operation that can be differentiated.

var _ gorgonia.SDOp = (*Op)(nil)

func (o *Op) Arity() int           { return o.Inputs }
func (o *Op) ReturnsPtr() bool     { return false }
func (o *Op) CallsExtern() bool    { return true }
func (o *Op) OverwritesInput() int { return -1 }
func (o *Op) String() string       { return o.Name }

// Type accepts any inputs and returns rows of f32: the builders of graphs are responsible for widths, and
// inputs may be weights of any encoding.
func (o *Op) Type() hm.Type {
	types := make([]hm.Type, o.Inputs+1)
	for i := range o.Inputs {
		types[i] = hm.TypeVariable('c' + rune(i))
	}
	types[o.Inputs] = rowsType(o.Width)
	return hm.NewFnType(types...)
}

func rowsType(width int) hm.Type {
	if width == 0 {
		return tensor.Float32
	}
	return gorgonia.TensorType{Dims: 2, Of: tensor.Float32}
}

// InferShape: AnyRows × Width, except for scalars and gradients of parameters.
func (o *Op) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	if o.Width == 0 {
		return tensor.ScalarShape(), nil
	}
	if o.Rows > 0 {
		return tensor.Shape{o.Rows, o.Width}, nil
	}
	return tensor.Shape{AnyRows, o.Width}, nil
}

func (o *Op) Do(...gorgonia.Value) (gorgonia.Value, error) {
	return nil, errors.New("model: operations run in a Program, not in a gorgonia machine")
}

func (o *Op) WriteHash(h hash.Hash) { fmt.Fprintf(h, "%s/%d", o.Name, o.Width) }

func (o *Op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

func (o *Op) DiffWRT(int) []bool { return o.WRT }

func (o *Op) SymDiff(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.Diff == nil {
		return nil, fmt.Errorf("%s has no gradient", o.Name)
	}
	return o.Diff(in, out, dout)
}
