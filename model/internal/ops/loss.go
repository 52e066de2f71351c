package ops

import (
	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// HostLoss computes a loss on the host, after the kernel and in place of it: it reads logp and
// entropy [tokens], writes dlogp [tokens], and corrects the kernel's results in stats F64 [kernels.NumStats].
type HostLoss func(dlogp, stats, logp, entropy kernels.Buffer) error

// Loss: the scalar that is differentiated. Inputs logp, old, advantage, weight. One kernel computes the
// loss, its statistics and its gradient. The operation of the gradient only copies that, and sums the
// gradients of the tokens of a pair.
func Loss(run *Run) *program.Op {
	return &program.Op{
		Name: "loss", Inputs: 4, Sums: kernels.NumStats, WRT: []bool{true, false, false, false}, Aux: []int{1},
		Keep: true, Checkpoint: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.Loss(out.Aux[0], out.Buf, kernels.LossIn{
				LogP: in[0].Buf, Entropy: in[0].Aux[headEntropy],
				OldLogP: in[1].Buf, Advantage: in[2].Buf, Weight: in[3].Buf,
			}, run.Loss, run.Asked.Tokens)
		},
		Host: func(_ *program.Execution, out *program.Operand, in []*program.Operand) error {
			if run.HostLoss == nil {
				return nil
			}
			return run.HostLoss(out.Aux[0], out.Buf, in[0].Buf, in[0].Aux[headEntropy])
		},
		Diff: func(_ gorgonia.Nodes, out, _ *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &program.Op{Name: "loss, gradient to logp", Inputs: 1, Width: 1,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.Copy(out.Buf, in[0].Aux[0])
					addRepeated(x.B, out.Buf, run.Asked.pairs(x.T), 1, run.Asked.Pairs)
				}}
			return gradients(gradientOf(g, out), nil, nil, nil)
		},
	}
}
