package ops

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// Embed: out [T, H] = rows of the table. Inputs ids, table.
func Embed(vocab, hidden int, trainable bool) *program.Op {
	return &program.Op{
		Name: fmt.Sprintf("embed [%d,%d]", vocab, hidden), Inputs: 2, Width: hidden, WRT: []bool{false, trainable},
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.Embed(out.Buf, in[1].Mat, in[0].Buf, x.T)
		},
		Diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &program.Op{Name: "embed, gradient to the table", Inputs: 2, Rows: vocab, Width: hidden,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.EmbedGrad(out.Buf, in[0].Buf, in[1].Buf, vocab, hidden, x.T)
				}}
			return gradients(nil, gradientOf(g, dout, in[0]))
		},
	}
}

// RMSNorm: inputs x, weight [H].
func RMSNorm(what string, hidden int, n kernels.Norm, trainable bool) *program.Op {
	return &program.Op{
		Name: "rmsnorm " + what, Inputs: 2, Width: hidden, WRT: []bool{true, trainable}, HalfInputs: []int{1}, Rounded: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.RMSNorm(out.Buf, in[0].Buf, in[1].Buf, n, hidden, x.T)
		},
		Diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			gx := &program.Op{Name: "rmsnorm " + what + ", gradient to x", Inputs: 3, Width: hidden, HalfInputs: []int{2},
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.RMSNormGradX(out.Buf, in[0].Buf, in[1].Buf, in[2].Buf, n, hidden, x.T)
				}}
			gw := &program.Op{Name: "rmsnorm " + what + ", gradient to weight", Inputs: 2, Rows: 1, Width: hidden,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.RMSNormGradW(out.Buf, in[0].Buf, in[1].Buf, n, hidden, x.T)
				}}
			return gradients(gradientOf(gx, dout, in[0], in[1]), gradientIf(trainable, gw, dout, in[0]))
		},
	}
}

// SwiGLU: input the packed (gate | up).
func SwiGLU(what string, n int) *program.Op {
	return &program.Op{
		Name: "swiglu " + what, Inputs: 1, Width: n, WRT: []bool{true}, HalfInputs: []int{1}, Rounded: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.SwiGLU(out.Buf, in[0].Buf, n, x.T)
		},
		Diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &program.Op{Name: "swiglu " + what + ", gradient", Inputs: 2, Width: 2 * n, HalfInputs: []int{2}, Rounded: true,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.SwiGLUGrad(out.Buf, in[0].Buf, in[1].Buf, n, x.T)
				}}
			return gradients(gradientOf(g, dout, in[0]))
		},
	}
}

// GeGLU: input the packed (gate | up).
func GeGLU(what string, n int) *program.Op {
	return &program.Op{
		Name: "geglu " + what, Inputs: 1, Width: n, WRT: []bool{true}, HalfInputs: []int{1}, Rounded: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.GeGLU(out.Buf, in[0].Buf, n, x.T)
		},
		Diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &program.Op{Name: "geglu " + what + ", gradient", Inputs: 2, Width: 2 * n, HalfInputs: []int{2}, Rounded: true,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.GeGLUGrad(out.Buf, in[0].Buf, in[1].Buf, n, x.T)
				}}
			return gradients(gradientOf(g, dout, in[0]))
		},
	}
}

// Scale: input x.
func Scale(what string, width int, factor float32) *program.Op {
	run := func(x *program.Execution, out *program.Operand, in []*program.Operand) {
		x.B.Scale(out.Buf, in[0].Buf, factor, x.T*width)
	}
	return &program.Op{
		Name: fmt.Sprintf("scale %s ×%g", what, factor), Inputs: 1, Width: width, WRT: []bool{true}, InPlace: 1, Run: run,
		Diff: func(_ gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &program.Op{Name: fmt.Sprintf("scale %s ×%g, gradient", what, factor), Inputs: 1, Width: width, Run: run}
			return gradients(gradientOf(g, dout))
		},
	}
}

// Add joins a branch to the residual stream.
func Add(what string, width int, checkpoint bool) *program.Op {
	return &program.Op{
		Name: "add " + what, Inputs: 2, Width: width, WRT: []bool{true, true}, InPlace: 2, Keep: true, Halve: true,
		Checkpoint: checkpoint,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.Add(out.Buf, in[0].Buf, in[1].Buf, x.T*width)
		},
		Diff: func(_ gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			return gorgonia.Nodes{dout, dout}, nil
		},
	}
}
