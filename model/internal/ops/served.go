package ops

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Served is what the rows of a run have beside the model: adapters, each for some of them.
type Served struct {
	Stretches []Stretch      // no two of which have a row in common
	Low       kernels.Buffer // F32: room for what any of them has between its two matrices
}

// Stretch is rows [From, To), which have the same adapter.
type Stretch struct {
	From, To    int
	Corrections []*Correction // of each packed linear, by its number; nil where nothing of it is adapted
}

// Correction is what an adapter adds to the output of a packed linear: in each window Scale · B A x, where A has the rows of all
// windows, one after the other.
type Correction struct {
	Scale   float32
	Windows []Window
	A       kernels.Matrix
	B       []kernels.Matrix
}

// Corrected is the output of packed linear number n with what the adapter of each row says of it. Inputs base [T, N], x [T, K].
func Corrected(run *Run, what string, n, N, K int) *program.Op {
	return &program.Op{
		Name: "served adapters " + what, Inputs: 2, Width: N, InPlace: 1, Mutates: true, Keep: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			for _, s := range run.Stretches {
				if c := s.Corrections[n]; c != nil {
					c.add(x.B, rowsFrom(out.Buf, s.From, N), rowsFrom(in[1].Buf, s.From, K), run.Low, s.To-s.From)
				}
			}
		},
	}
}

// add does to T rows what Linear and LoRAUp do, in their order: the numbers are those of a policy that has the adapter attached.
func (c *Correction) add(b kernels.Backend, out, x kernels.Cols, low kernels.Buffer, T int) {
	all := c.A.Rows()
	rank := all / len(c.Windows)
	b.Linear(kernels.Whole(low, all), x, c.A, kernels.LinearOpt{Alpha: c.Scale}, T)
	for i, w := range c.Windows {
		out.From, out.N = w.From, w.N
		z := kernels.Cols{Buf: low, Stride: all, From: i * rank, N: rank}
		b.Linear(out, z, c.B[i], kernels.LinearOpt{Alpha: 1, Accumulate: true}, T)
	}
}

// rowsFrom are the rows of a value from one on.
func rowsFrom(x kernels.Buffer, row, width int) kernels.Cols {
	if row > 0 {
		x = x.Slice(row*width, x.Len())
	}
	return kernels.Whole(x, width)
}
