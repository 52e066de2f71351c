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

// TargetRows: one row for each pair. Input h.
func TargetRows(run *Run, hidden int) *program.Op {
	return &program.Op{
		Name: "rows that are asked for", Inputs: 1, Width: hidden, WRT: []bool{true}, InPlace: 1, Mutates: true,
		Run: func(x *program.Execution, out *program.Operand, _ []*program.Operand) {
			repeat(x.B, out.Buf, run.Asked.rows(x.T), hidden, x.T)
		},
		Diff: func(_ gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &program.Op{Name: "rows that are asked for, gradient", Inputs: 1, Width: hidden, InPlace: 1, Mutates: true,
				Run: func(x *program.Execution, out *program.Operand, _ []*program.Operand) {
					addRepeated(x.B, out.Buf, run.Asked.rows(x.T), hidden, x.T)
				}}
			return gradients(gradientOf(g, dout))
		},
	}
}

// repeat appends copies of rows of x [n, width] after its last row.
func repeat(b kernels.Backend, x, rows kernels.Buffer, width, n int) {
	if rows != nil {
		more := rows.Len()
		b.Gather(x.Slice(n*width, (n+more)*width), x.Slice(0, n*width), rows, width, more)
	}
}

// addRepeated is the gradient of repeat: it adds the rows after the last row of dx [n, width] to the rows that they repeat.
func addRepeated(b kernels.Backend, dx, rows kernels.Buffer, width, n int) {
	if rows != nil {
		more := rows.Len()
		b.EmbedGrad(dx.Slice(0, n*width), dx.Slice(n*width, (n+more)*width), rows, n, width, more)
	}
}

// LogProb: the log-probability of each pair's target, then those of further tokens. Inputs h, w, targets. With gradients it
// keeps the Jacobian, so that no logit is computed twice. cap is the cap of logits, or 0.
func LogProb(run *Run, vocab, hidden int, cap float32, withGradients, trainable bool) *program.Op {
	logits := func() kernels.Logits { return kernels.Logits{InvTemp: run.InvTemp, Cap: cap} }
	o := &program.Op{
		Name: "head+logprob", Inputs: 3, Width: 1, WRT: []bool{withGradients, trainable, false},
		Aux: []int{1, 1}, Keep: true, Checkpoint: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			res := kernels.LogProbOut{LogP: out.Buf, Entropy: out.Aux[headEntropy], LSE: out.Aux[headLSE]}
			if withGradients {
				res.Jacobian = out.Aux[headJacobian]
			}
			n := run.Asked.Pairs
			x.B.LogProb(res, in[0].Buf, in[1].Mat, in[2].Buf, logits(), n)
			repeat(x.B, res.LogP, run.Asked.pairs(x.T), 1, n)
			repeat(x.B, res.Entropy, run.Asked.pairs(x.T), 1, n)
		},
		Diff: func(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			gx := &program.Op{Name: "head+logprob, gradient to h", Inputs: 2, Width: hidden,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.LogProbGradX(out.Buf, in[0].Buf, in[1].Aux[headJacobian], hidden, run.Asked.Pairs)
				}}
			gw := &program.Op{Name: "head+logprob, gradient to w", Inputs: 5, Rows: vocab, Width: hidden,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					lse := in[4].Aux[headLSE]
					x.B.LogProbGradW(out.Buf, in[0].Buf, in[1].Buf, in[2].Mat, in[3].Buf, lse, logits(), run.Asked.Pairs)
				}}
			return gradients(gradientOf(gx, dout, out), gradientIf(trainable, gw, dout, in[0], in[1], in[2], out), nil)
		},
	}
	if withGradients {
		o.Aux = append(o.Aux, hidden)
	}
	return o
}

// Gather: the rows from which a decoder draws. Inputs x, row numbers.
func Gather(run *Run, width int) *program.Op {
	return &program.Op{
		Name: "rows to draw from", Inputs: 2, Width: width, Keep: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.Gather(out.Buf, in[0].Buf, in[1].Buf, width, run.Draws)
		},
	}
}
