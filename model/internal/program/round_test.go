package program

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// paddedRows supports rounded rows of one width, with as much padding as numbers.
type paddedRows int

func (s paddedRows) RoundedLen(width, T int) int {
	if width != int(s) {
		return 0
	}
	return 2 * T * width
}

// A value is stored as rounded rows if all operations that read it round it, and only then.
func TestRoundedRowsAreForThoseWhoRound(t *testing.T) {
	const rows = 2
	for _, c := range []struct {
		what    string
		rounder kernels.RowRounder
		marked  bool // as an output that can be rounded
		readers []bool
		output  bool // read after the run, too
		rounded bool
	}{
		{"one who rounds", paddedRows(width), true, []bool{true}, false, true},
		{"two who round", paddedRows(width), true, []bool{true, true}, false, true},
		{"one who does not", paddedRows(width), true, []bool{true, false}, false, false},
		{"a backend without such rows", nil, true, []bool{true}, false, false},
		{"another width", paddedRows(width + 1), true, []bool{true}, false, false},
		{"an operation that writes f32", paddedRows(width), false, []bool{true}, false, false},
		{"an output", paddedRows(width), true, []bool{true}, true, false},
	} {
		b := kerneltest.NewReference()
		g, in := leaf(t, b, make([]float32, rows*width)...)
		g.Rounder = c.rounder
		var wrote, read []kernels.Buffer
		made := apply(t, &Op{Name: "made", Inputs: 1, Width: width, Rounded: c.marked,
			Run: func(_ *Execution, out *Operand, _ []*Operand) { wrote = append(wrote, out.Buf) }}, in)
		for i, rounds := range c.readers {
			reader := &Op{Name: "reader " + string(rune('a'+i)), Inputs: 1, Width: width,
				Run: func(_ *Execution, _ *Operand, in []*Operand) { read = append(read, in[0].Buf) }}
			if rounds {
				reader.RoundedInputs = []int{1}
			}
			g.Outputs = append(g.Outputs, apply(t, reader, made))
		}
		if c.output {
			g.Outputs = append(g.Outputs, made)
		}
		p, err := Compile(b, g, rows, RecomputeCheap)
		require.NoError(t, err)
		p.T = rows
		require.NoError(t, p.RunAll())
		want, numbers := kernels.F32, rows*width
		if c.rounded {
			want, numbers = kernels.BF16, 2*rows*width
		}
		require.Len(t, read, len(c.readers), c.what)
		for _, buf := range append(wrote, read...) {
			require.Equal(t, want, buf.DType(), c.what)
			require.Equal(t, numbers, buf.Len(), c.what)
		}
		require.NoError(t, p.Close())
		require.NoError(t, b.Close())
	}
}
