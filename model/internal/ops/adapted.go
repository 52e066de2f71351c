package ops

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Adapted is a frozen linear with a trained adapter: see kernels.LinearLowRank. In a bare run it is the linear alone. Inputs x, w, the
// bias if there is one, A, and one B per window; z is a plane of the output.
type Adapted struct {
	What    string // which matrix, for people
	N, K    int
	Rank    int
	Scale   float32
	Bias    bool
	First   bool          // nothing before it is trained, so x needs no gradient
	Factors kernels.DType // of the gradients to A and B
	Rounds  bool          // all of these products round what they multiply, and rounded rows have these windows
	Windows []kernels.Window
}

// RoundsRows tells whether a weight and its adapter round what they multiply, and r, which may be nil, supports the adapter's windows.
func RoundsRows(r kernels.RowRounder, w, a kernels.Matrix, windows []kernels.Window) bool {
	if r == nil || w.DType() != kernels.BF16Rounding || a.DType() != kernels.BF16Rounding {
		return false
	}
	return !slices.ContainsFunc(windows, func(at kernels.Window) bool { return r.RoundedLen(at.From, 1) == 0 || r.RoundedLen(at.N, 1) == 0 })
}

// rounded is Op.RoundedInputs for the given multiplied input, counted from 1.
func (a Adapted) rounded(input int) []int {
	if a.Rounds {
		return []int{input}
	}
	return nil
}

// low is the width of z.
func (a Adapted) low() int { return a.Rank * len(a.Windows) }

func (a Adapted) between(z kernels.Buffer) kernels.Cols { return kernels.Whole(z, a.low()) }

// adapter returns a function that makes a kernels.LowRank of an operation's inputs from A on. It always returns the same one, filled anew,
// so that a run allocates nothing.
func (a Adapted) adapter() func(in []*program.Operand) *kernels.LowRank {
	l := &kernels.LowRank{Scale: a.Scale, Windows: a.Windows, B: make([]kernels.Matrix, len(a.Windows))}
	return func(in []*program.Operand) *kernels.LowRank {
		l.A = in[0].Mat
		for i, b := range in[1:] {
			l.B[i] = b.Mat
		}
		return l
	}
}

// Op is the linear plus the adapter.
func (a Adapted) Op(run *Run) *program.Op {
	first := 2 // the adapter's first input
	if a.Bias {
		first = 3
	}
	adapter := a.adapter()
	o := &program.Op{
		Name: fmt.Sprintf("linear %s [%d,%d] and its adapter", a.What, a.N, a.K), Inputs: first + 1 + len(a.Windows), Width: a.N,
		Aux: []int{a.low()}, Keep: true, Halve: true, RoundedInputs: a.rounded(1),
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			opt := kernels.LinearOpt{Alpha: 1}
			if a.Bias {
				opt.Bias = in[2].Buf
			}
			if run.WithoutAdapter {
				x.B.Linear(out.Cols(), in[0].Cols(), in[1].Mat, opt, x.T)
				return
			}
			kernels.LinearLowRank(x.B, out.Cols(), a.between(out.Aux[0]), in[0].Cols(), in[1].Mat, opt.Bias, adapter(in[first:]), x.T)
		},
		Diff: func(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			return a.diff(in, first, out, dout)
		},
	}
	o.WRT = make([]bool, o.Inputs)
	o.WRT[0] = !a.First
	for i := first; i < o.Inputs; i++ {
		o.WRT[i] = true
	}
	return o
}

func (a Adapted) diff(in gorgonia.Nodes, first int, out, dout *gorgonia.Node) (gorgonia.Nodes, error) {
	matrices := in[first:]
	terms := make([]gradient, first, len(in))
	var dz *gorgonia.Node
	var err error
	if a.First {
		dz, err = gorgonia.ApplyOp(a.gradZ(), append(gorgonia.Nodes{dout}, matrices...)...)
	} else {
		dz, err = gorgonia.ApplyOp(a.gradX(), append(gorgonia.Nodes{dout, in[1]}, matrices...)...)
		terms[0] = passThrough(dz)
	}
	if err != nil {
		return nil, err
	}
	terms = append(terms, gradientOf(a.gradA(), dz, in[0]))
	for i := range a.Windows {
		terms = append(terms, gradientOf(a.gradB(i), dout, out))
	}
	return gradients(terms...)
}

// gradX has the gradient to z in a plane beside that to x.
func (a Adapted) gradX() *program.Op {
	adapter := a.adapter()
	return &program.Op{
		Name:   fmt.Sprintf("linear %s [%d,%d] and its adapter, gradient to x", a.What, a.N, a.K),
		Inputs: 3 + len(a.Windows), Width: a.K, Aux: []int{a.low()}, RoundedInputs: a.rounded(1),
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			kernels.LinearLowRankGradX(x.B, out.Cols(), a.between(out.Aux[0]), in[0].Cols(), in[1].Mat, adapter(in[2:]), x.T)
		}}
}

func (a Adapted) gradZ() *program.Op {
	adapter := a.adapter()
	return &program.Op{Name: "adapter of " + a.What + ", gradient to z", Inputs: 2 + len(a.Windows), Width: a.low(),
		RoundedInputs: a.rounded(1),
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			kernels.LowRankGradZ(x.B, out.Cols(), in[0].Cols(), adapter(in[1:]), x.T)
		}}
}

func (a Adapted) gradA() *program.Op {
	o := &program.Op{Name: fmt.Sprintf("adapter of %s ×%g, gradient to A", a.What, a.Scale), Inputs: 2, Rows: a.low(), Width: a.K,
		RoundedInputs: a.rounded(2),
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			dz := in[0].Buf
			if !a.First {
				dz = in[0].Aux[0]
			}
			x.B.LinearGradW(out.Buf, a.between(dz), in[1].Cols(), a.Scale, a.Factors, x.T)
		}}
	if !a.First {
		o.PlaneInputs = []int{1}
	}
	return o
}

func (a Adapted) gradB(i int) *program.Op {
	w := a.Windows[i]
	return &program.Op{Name: fmt.Sprintf("adapter of %s, gradient to B %d", a.What, i), Inputs: 2, Rows: w.N, Width: a.Rank,
		PlaneInputs: []int{2}, RoundedInputs: a.rounded(1),
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			z := kernels.Window{From: i * a.Rank, N: a.Rank}
			x.B.LinearGradW(out.Buf, w.Of(in[0].Buf, a.N), z.Of(in[1].Aux[0], a.low()), 1, a.Factors, x.T)
		}}
}
