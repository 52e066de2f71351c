package program

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// scaled is out = 1.1 · in, which is stored for the gradient, and one more number for each row.
func scaled(name string) *Op {
	return &Op{Name: name, Inputs: 1, Width: width, Aux: []int{1}, Keep: true, Halve: true,
		Run: func(x *Execution, out *Operand, in []*Operand) {
			x.B.Scale(out.Buf, in[0].Buf, 1.1, x.T*width)
			x.B.Scale(out.Aux[0], in[0].Buf, 1.1, x.T)
		}}
}

// recomputedOp is a recomputed operation: out = in, rotated by 0. It accepts bf16, and records the types that it got.
func recomputedOp(name string, halves bool, got *[]kernels.DType, rope kernels.Buffer) *Op {
	h := kernels.Attn{Heads: kernels.Heads{Q: 1, KV: 1, Dim: 2}}
	o := &Op{Name: name, Inputs: 1, Width: width,
		Run: func(x *Execution, out *Operand, in []*Operand) {
			*got = append(*got, in[0].Buf.DType())
			x.B.Rope(out.Buf, in[0].Buf, rope, false, h, x.T*width/h.Width()) // two rows here are one row of Rope
		}}
	if halves {
		o.HalfInputs = []int{1}
	}
	return o
}

// gradientOp is the gradient of a parameter: it reads both inputs, and the extra numbers of the second.
func gradientOp(name string) *Op {
	return &Op{Name: name, Inputs: 2, Rows: 1, Width: takenNumbers,
		Run: func(x *Execution, out *Operand, in []*Operand) {
			at := 0
			for _, part := range []kernels.Buffer{in[0].Buf, in[1].Buf, in[1].Aux[0]} {
				to := out.Buf.Slice(at, at+part.Len())
				x.B.Add(to, to, part, to.Len())
				at += part.Len()
			}
		}}
}

// takenNumbers is the count of its numbers for batches of two rows.
const takenNumbers = 2 * (2*width + 1)

func rounded32(t *testing.T, b kernels.Backend, x []float32) []float32 {
	t.Helper()
	half, err := b.Alloc(kernels.BF16, len(x))
	require.NoError(t, err)
	wide, err := b.Alloc(kernels.F32, len(x))
	require.NoError(t, err)
	b.Upload(wide, x)
	kernels.Narrow(b, half, wide, len(x))
	kernels.Widen(b, wide, half, len(x))
	got := make([]float32, len(x))
	require.NoError(t, b.Download(got, wide))
	return got
}

// In a narrow graph gradients read bf16, whether values are kept or recomputed; the forward pass is unchanged.
func TestGradientsReadWhatWaitsInBF16(t *testing.T) {
	b := kerneltest.NewReference()
	defer b.Close()
	rope, err := b.Alloc(kernels.F32, 2)
	require.NoError(t, err)
	b.Upload(rope, []float32{1, 0}) // cosine and sine of 0
	x := []float32{0.7, -1.3, 3.3, 5, 1e-3, 17}
	wide, twice := make([]float32, len(x)), make([]float32, len(x))
	for i := range x {
		wide[i] = 1.1 * x[i]
		twice[i] = 2 * wide[i]
	}
	narrow := rounded32(t, b, wide)
	require.NotEqual(t, wide, narrow)
	for _, c := range []struct {
		narrow, halves bool
		recompute      Recompute
		want           []float32
		read           []kernels.DType
	}{
		{false, true, RecomputeCheap, wide, []kernels.DType{kernels.F32, kernels.F32}},
		{false, true, RecomputeBlocks, wide, []kernels.DType{kernels.F32, kernels.F32}},
		{true, true, RecomputeCheap, narrow, []kernels.DType{kernels.F32, kernels.BF16}},
		{true, true, RecomputeBlocks, narrow, []kernels.DType{kernels.F32, kernels.BF16}},
		{true, false, RecomputeCheap, narrow, []kernels.DType{kernels.F32, kernels.F32}},
		{false, true, RecomputeNone, wide, []kernels.DType{kernels.F32}}, // once
		{true, true, RecomputeNone, narrow, []kernels.DType{kernels.F32, kernels.BF16}},
		{true, false, RecomputeNone, narrow, []kernels.DType{kernels.F32, kernels.F32}},
	} {
		g, leaf := leaf(t, b, x...)
		var read []kernels.DType
		kept := apply(t, scaled("kept"), leaf)
		again := apply(t, recomputedOp("computed again", c.halves, &read, rope), kept)
		g.Outputs = gorgonia.Nodes{apply(t, doubled("after"), again)}
		dest, err := b.Alloc(kernels.F32, takenNumbers)
		require.NoError(t, err)
		g.Grads = []ParamGrad{{Node: apply(t, gradientOp("gradient"), again, kept), Dest: dest}}
		g.Narrow = c.narrow
		p, err := Compile(b, g, 2, c.recompute)
		require.NoError(t, err)
		p.T = 2
		require.NoError(t, p.RunAll())
		got, out := make([]float32, takenNumbers), make([]float32, len(x))
		require.NoError(t, b.Download(got, dest))
		require.NoError(t, b.Download(out, p.Outputs[0].Buf))
		name := fmt.Sprintf("%+v", c)
		require.Equal(t, slices.Concat(c.want, c.want, wide[:2]), got, name)
		require.Equal(t, twice, out, name)
		require.Equal(t, c.read, read, name)
		require.NoError(t, p.Close())
		require.NoError(t, p.Close(), "no operation is left")
	}
}

// Kept values take half the memory, and none is kept in f32.
func TestWhatWaitsTakesHalf(t *testing.T) {
	b := kerneltest.NewReference()
	defer b.Close()
	const layers, rows = 9, 64
	place := func(narrow bool, r Recompute) *Layout {
		g, n := leaf(t, b, 1, 2, 3)
		g.Narrow = narrow
		dest, err := b.Alloc(kernels.F32, takenNumbers)
		require.NoError(t, err)
		for i := range layers {
			n = apply(t, scaled(fmt.Sprint("kept ", i)), n)
			g.Grads = append(g.Grads, ParamGrad{Node: apply(t, gradientOp(fmt.Sprint("gradient ", i)), n, n), Dest: dest})
		}
		g.Outputs = gorgonia.Nodes{n}
		for i, j := 0, layers-1; i < j; i, j = i+1, j-1 { // from the last to the first
			g.Grads[i], g.Grads[j] = g.Grads[j], g.Grads[i]
		}
		s, err := NewSchedule(g, r)
		require.NoError(t, err)
		return s.Place(rows)
	}
	wide, narrow := place(false, RecomputeCheap), place(true, RecomputeCheap)
	one, plane := rows*width, rows
	require.Equal(t, layers*(one+plane), wide.Floats)
	require.Zero(t, wide.Halves)
	require.Equal(t, layers*one, narrow.Halves)
	require.LessOrEqual(t, narrow.Floats, 3*(one+plane)+layers*plane, "two of the forward pass, or one that came back, and all planes")
	require.Equal(t, 4*narrow.Floats+2*narrow.Halves, narrow.Bytes())
	for _, l := range []*Layout{narrow, place(true, RecomputeBlocks), place(true, RecomputeNone)} {
		blocks := slices.Concat(l.Blocks, l.Planes)
		for i, x := range blocks {
			for _, y := range blocks[:i] {
				if x == nil || y == nil || x == y || x.Half != y.Half || x.Last < y.First || y.Last < x.First {
					continue
				}
				require.True(t, x.Offset+x.Numbers <= y.Offset || y.Offset+y.Numbers <= x.Offset, "%+v and %+v", x, y)
			}
		}
	}
}
