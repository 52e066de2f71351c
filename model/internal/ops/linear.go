package ops

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Linear: out [T, N] = x [T, K] · wᵀ + bias. Inputs x, w and, if there is one, bias.
type Linear struct {
	What      string // which matrix, for people
	N, K      int
	Bias      bool
	Trainable bool
	Factors   kernels.DType // of the gradient to w
}

// Op is the product.
func (l Linear) Op() *program.Op {
	o := &program.Op{
		Name: fmt.Sprintf("linear %s [%d,%d]", l.What, l.N, l.K), Inputs: 2, Width: l.N,
		WRT: []bool{true, l.Trainable}, Keep: true, Halve: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			opt := kernels.LinearOpt{Alpha: 1}
			if l.Bias {
				opt.Bias = in[2].Buf
			}
			x.B.Linear(out.Cols(), in[0].Cols(), in[1].Mat, opt, x.T)
		},
		Diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			terms := []gradient{gradientOf(l.gradX(), dout, in[1]), gradientIf(l.Trainable, l.gradW(), dout, in[0])}
			if l.Bias {
				terms = append(terms, gradientIf(l.Trainable, l.gradBias(), dout))
			}
			return gradients(terms...)
		},
	}
	if l.Bias {
		o.Inputs, o.WRT = 3, append(o.WRT, l.Trainable)
	}
	return o
}

func (l Linear) gradX() *program.Op {
	return &program.Op{Name: fmt.Sprintf("linear %s [%d,%d], gradient to x", l.What, l.N, l.K), Inputs: 2, Width: l.K,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.LinearGradX(out.Cols(), in[0].Cols(), in[1].Mat, kernels.LinearOpt{Alpha: 1}, x.T)
		}}
}

func (l Linear) gradW() *program.Op {
	return &program.Op{Name: fmt.Sprintf("linear %s, gradient to w", l.What), Inputs: 2, Rows: l.N, Width: l.K,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.LinearGradW(out.Buf, in[0].Cols(), in[1].Cols(), 1, l.Factors, x.T)
		}}
}

func (l Linear) gradBias() *program.Op {
	return &program.Op{Name: fmt.Sprintf("linear %s, gradient to bias", l.What), Inputs: 1, Rows: 1, Width: l.N,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.BiasGrad(out.Buf, in[0].Cols(), x.T)
		}}
}
