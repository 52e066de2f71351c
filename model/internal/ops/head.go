package ops

import (
	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// The planes that the head keeps beside the log-probabilities.
const (
	headEntropy = iota
	headLSE
	headJacobian
)

// LogProb: the log-probability of each row's target. Inputs h, w, targets. With gradients it keeps
// the Jacobian, so that no logit is ever computed twice.
func LogProb(run *Run, vocab, hidden int, withGradients, trainable bool) *program.Op {
	o := &program.Op{
		Name: "head+logprob", Inputs: 3, Width: 1, WRT: []bool{withGradients, trainable, false},
		Aux: []int{1, 1}, Keep: true, Checkpoint: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			res := kernels.LogProbOut{LogP: out.Buf, Entropy: out.Aux[headEntropy], LSE: out.Aux[headLSE]}
			if withGradients {
				res.Jacobian = out.Aux[headJacobian]
			}
			x.B.LogProb(res, in[0].Buf, in[1].Mat, in[2].Buf, run.InvTemp, x.T)
		},
		Diff: func(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			gx := &program.Op{Name: "head+logprob, gradient to h", Inputs: 2, Width: hidden,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.LogProbGradX(out.Buf, in[0].Buf, in[1].Aux[headJacobian], hidden, x.T)
				}}
			gw := &program.Op{Name: "head+logprob, gradient to w", Inputs: 5, Rows: vocab, Width: hidden,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.LogProbGradW(out.Buf, in[0].Buf, in[1].Buf, in[2].Mat, in[3].Buf, in[4].Aux[headLSE], run.InvTemp, x.T)
				}}
			return gradients(by(gx, dout, out), byIf(trainable, gw, dout, in[0], in[1], in[2], out), nil)
		},
	}
	if withGradients {
		o.Aux = append(o.Aux, hidden)
	}
	return o
}

// Gather: the rows that a decoder draws from. Inputs x, row numbers.
func Gather(run *Run, width int) *program.Op {
	return &program.Op{
		Name: "rows to draw from", Inputs: 2, Width: width, Keep: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.Gather(out.Buf, in[0].Buf, in[1].Buf, width, run.Draws)
		},
	}
}
