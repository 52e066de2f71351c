package program

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

const width = 3

// added is out = a + b, in the memory of a if that is free.
func added(name string) *Op {
	return &Op{Name: name, Inputs: 2, Width: width, InPlace: 1, Mutates: true,
		Run: func(x *Execution, out *Operand, in []*Operand) { x.B.Add(out.Buf, out.Buf, in[1].Buf, x.T*width) }}
}

// doubled is out = a + a, in memory of its own.
func doubled(name string) *Op {
	return &Op{Name: name, Inputs: 1, Width: width,
		Run: func(x *Execution, out *Operand, in []*Operand) { x.B.Add(out.Buf, in[0].Buf, in[0].Buf, x.T*width) }}
}

// leaf is a graph of one leaf, whose rows are values.
func leaf(t *testing.T, b kernels.Backend, values ...float32) (*Graph, *gorgonia.Node) {
	t.Helper()
	g := NewGraph("test")
	n := gorgonia.NewMatrix(g.ExprGraph, tensor.Float32, gorgonia.WithShape(AnyRows, width), gorgonia.WithName("x"))
	buf, err := b.Alloc(kernels.F32, len(values))
	require.NoError(t, err)
	b.Upload(buf, values)
	g.Leaves[n] = &Operand{Buf: buf, Width: width}
	return g, n
}

func apply(t *testing.T, o *Op, in ...*gorgonia.Node) *gorgonia.Node {
	t.Helper()
	n, err := gorgonia.ApplyOp(o, in...)
	require.NoError(t, err)
	return n
}

func TestAValueThatIsNeededLaterIsNotOverwritten(t *testing.T) {
	b := kerneltest.NewReference()
	defer b.Close()
	g, x := leaf(t, b, 1, 2, 3, 4, 5, 6)
	two := apply(t, doubled("2x"), x)
	three := apply(t, added("2x + x"), two, x)     // two is needed once more
	five := apply(t, added("3x + 2x"), three, two) // three is not
	g.Outputs = gorgonia.Nodes{five}

	s, err := NewSchedule(g, RecomputeCheap)
	require.NoError(t, err)
	l := s.Place(2)
	require.Equal(t, []bool{false, true, false}, l.Copies)
	require.Equal(t, 1, l.InPlace)

	p, err := Compile(b, g, 2, RecomputeCheap)
	require.NoError(t, err)
	for range 2 {
		p.T = 2
		require.NoError(t, p.RunAll())
		got := make([]float32, 2*width)
		require.NoError(t, b.Download(got, p.Outputs[0].Buf))
		require.Equal(t, []float32{5, 10, 15, 20, 25, 30}, got)
	}
	p.T = 3
	require.EqualError(t, p.RunAll(), "model: a batch of 3 rows for a program of 2")
	require.NoError(t, p.Close())
}

// A host operation runs between the operations before and after it; its failure ends the run.
func TestTheHostComesInBetween(t *testing.T) {
	b := kerneltest.NewReference()
	defer b.Close()
	g, x := leaf(t, b, 1, 2, 3)
	var failure error
	half := doubled("2x, halved on the host")
	half.Host = func(x *Execution, out *Operand, _ []*Operand) error {
		values := make([]float32, x.T*width)
		if err := x.B.Download(values, out.Buf); err != nil {
			return err
		}
		for i := range values {
			values[i] /= 2
		}
		x.B.Upload(out.Buf, values)
		return failure
	}
	g.Outputs = gorgonia.Nodes{apply(t, doubled("after"), apply(t, half, x))}
	p, err := Compile(b, g, 1, RecomputeCheap)
	require.NoError(t, err)
	p.T = 1
	require.NoError(t, p.RunAll())
	got := make([]float32, width)
	require.NoError(t, b.Download(got, p.Outputs[0].Buf))
	require.Equal(t, []float32{2, 4, 6}, got)

	failure = errors.New("no")
	require.Equal(t, failure, p.RunAll())
}

func TestAnOperationWithoutAKernelIsRefused(t *testing.T) {
	b := kerneltest.NewReference()
	defer b.Close()
	g, x := leaf(t, b, 1, 2, 3)
	square, err := gorgonia.HadamardProd(x, x)
	require.NoError(t, err)
	g.Outputs = gorgonia.Nodes{square}
	_, err = Compile(b, g, 1, RecomputeCheap)
	require.ErrorContains(t, err, "an operation of gorgonia's own that has no kernel")
}
