package model

import (
	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// The planes that the head keeps beside the log-probabilities.
const (
	headEntropy = iota
	headLSE
	headJacobian
)

// headOp: the log-probability of each row's target. Inputs h, w, targets. With gradients it keeps
// the Jacobian, so that no logit is ever computed twice.
func headOp(vocab, hidden int, gradients, trainable bool) *op {
	o := &op{
		name: "head+logprob", arity: 3, width: 1, wrt: []bool{gradients, trainable, false}, inPlace: -1,
		aux: []int{1, 1}, keep: true, checkpoint: true,
		run: func(x *execution, out *operand, in []*operand) {
			res := kernels.LogProbOut{LogP: out.buf, Entropy: out.aux[headEntropy], LSE: out.aux[headLSE]}
			if gradients {
				res.Jacobian = out.aux[headJacobian]
			}
			x.b.LogProb(res, in[0].buf, in[1].mat, in[2].buf, x.invTemp, x.T)
		},
	}
	if gradients {
		o.aux = append(o.aux, hidden)
	}
	o.diff = func(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error) {
		gx := &op{name: "head+logprob, gradient to h", arity: 2, width: hidden, inPlace: -1,
			run: func(x *execution, out *operand, in []*operand) {
				x.b.LogProbGradX(out.buf, in[0].buf, in[1].aux[headJacobian], hidden, x.T)
			}}
		terms := []func() (*gorgonia.Node, error){grad(gx, dout, out), nil, nil}
		if trainable {
			terms[1] = grad(&op{name: "head+logprob, gradient to w", arity: 5, rows: vocab, width: hidden, inPlace: -1,
				run: func(x *execution, out *operand, in []*operand) {
					x.b.LogProbGradW(out.buf, in[0].buf, in[1].buf, in[2].mat, in[3].buf, in[4].aux[headLSE], x.invTemp, x.T)
				}}, dout, in[0], in[1], in[2], out)
		}
		return grads(terms...)
	}
	return o
}

// lossOp: the scalar that is differentiated. Inputs logp, old, advantage, weight. One kernel computes
// the loss with its statistics and, beside them, its gradient; the gradient's own operation only
// hands that out.
func lossOp() *op {
	return &op{
		name: "loss", arity: 4, width: 0, wrt: []bool{true, false, false, false}, inPlace: -1, aux: []int{1}, keep: true, checkpoint: true,
		run: func(x *execution, out *operand, in []*operand) {
			x.b.Loss(out.aux[0], out.buf, kernels.LossIn{
				LogP: in[0].buf, Entropy: in[0].aux[headEntropy],
				OldLogP: in[1].buf, Advantage: in[2].buf, Weight: in[3].buf,
			}, x.loss, x.T)
		},
		diff: func(_ gorgonia.Nodes, out, _ *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &op{name: "loss, gradient to logp", arity: 1, width: 1, inPlace: -1,
				run: func(x *execution, out *operand, in []*operand) {
					x.b.Copy(out.buf, in[0].aux[0])
				}}
			return grads(grad(g, out), nil, nil, nil)
		},
	}
}
