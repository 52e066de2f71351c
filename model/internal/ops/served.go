package ops

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Served are the adapters of a run, each for some of its rows.
type Served struct {
	Stretches []Stretch      // no two of which have a row in common
	Low       kernels.Buffer // F32: room for z, the output of an adapter's A
}

// Stretch is rows [From, To), which have the same adapter.
type Stretch struct {
	From, To    int
	Corrections []*kernels.LowRank // of each packed linear, by its number; nil: the linear is not adapted
}

// Corrected is the output of packed linear number n plus the correction of each row's adapter, with the bits of a policy that has the
// adapter attached. Inputs base [T, N], x [T, K].
func Corrected(run *Run, what string, n, N, K int) *program.Op {
	return &program.Op{
		Name: "served adapters " + what, Inputs: 2, Width: N, InPlace: 1, Mutates: true, Keep: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			for _, s := range run.Stretches {
				if c := s.Corrections[n]; c != nil {
					z := kernels.Whole(run.Low, c.A.Rows())
					kernels.AddLowRank(x.B, rowsFrom(out.Buf, s.From, N), z, rowsFrom(in[1].Buf, s.From, K), c, s.To-s.From)
				}
			}
		},
	}
}

// rowsFrom are the rows of a value from the given one on.
func rowsFrom(x kernels.Buffer, row, width int) kernels.Cols {
	if row > 0 {
		x = x.Slice(row*width, x.Len())
	}
	return kernels.Whole(x, width)
}
