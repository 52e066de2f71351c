package model

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// embedOp: out [T, H] = rows of the table. Inputs ids, table.
func embedOp(vocab, hidden int, trainable bool) *op {
	return &op{
		name: fmt.Sprintf("embed [%d,%d]", vocab, hidden), arity: 2, width: hidden, wrt: []bool{false, trainable}, inPlace: -1,
		run: func(x *execution, out *operand, in []*operand) { x.b.Embed(out.buf, in[1].mat, in[0].buf, x.T) },
		diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &op{name: "embed, gradient to the table", arity: 2, rows: vocab, width: hidden, inPlace: -1,
				run: func(x *execution, out *operand, in []*operand) {
					x.b.EmbedGrad(out.buf, in[0].buf, in[1].buf, vocab, hidden, x.T)
				}}
			return grads(nil, grad(g, dout, in[0]))
		},
	}
}

// rmsNormOp: inputs x, weight [H].
func rmsNormOp(what string, hidden int, eps float32, trainable bool) *op {
	return &op{
		name: "rmsnorm " + what, arity: 2, width: hidden, wrt: []bool{true, trainable}, inPlace: -1,
		run: func(x *execution, out *operand, in []*operand) {
			x.b.RMSNorm(out.buf, in[0].buf, in[1].buf, eps, hidden, x.T)
		},
		diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			gx := &op{name: "rmsnorm " + what + ", gradient to x", arity: 3, width: hidden, inPlace: -1,
				run: func(x *execution, out *operand, in []*operand) {
					x.b.RMSNormGradX(out.buf, in[0].buf, in[1].buf, in[2].buf, eps, hidden, x.T)
				}}
			terms := []func() (*gorgonia.Node, error){grad(gx, dout, in[0], in[1]), nil}
			if trainable {
				terms[1] = grad(&op{name: "rmsnorm " + what + ", gradient to weight", arity: 2, rows: 1, width: hidden, inPlace: -1,
					run: func(x *execution, out *operand, in []*operand) {
						x.b.RMSNormGradW(out.buf, in[0].buf, in[1].buf, eps, hidden, x.T)
					}}, dout, in[0])
			}
			return grads(terms...)
		},
	}
}

// ropeTableOp: the angles of every row, shared by all layers. Input positions.
func ropeTableOp(theta float64, dim int) *op {
	return &op{name: fmt.Sprintf("rope table %g", theta), arity: 1, width: dim, wrt: []bool{false}, inPlace: -1, keep: true, checkpoint: true,
		run: func(x *execution, out *operand, in []*operand) { x.b.RopeTable(out.buf, in[0].buf, theta, dim, x.T) }}
}

// qkNormRopeOp: inputs qkv, the two head norms' weights [2, Dim] as planes, rope table.
func qkNormRopeOp(what string, h kernels.Heads, eps float32, trainable bool) *op {
	return &op{
		name: "qk-norm+rope " + what, arity: 3, width: h.Width(), wrt: []bool{true, trainable, false}, inPlace: -1,
		run: func(x *execution, out *operand, in []*operand) {
			x.b.QKNormRope(out.buf, in[0].buf, in[1].aux[0], in[1].aux[1], in[2].buf, eps, h, x.T)
		},
		diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			gx := &op{name: "qk-norm+rope " + what + ", gradient to qkv", arity: 4, width: h.Width(), inPlace: -1,
				run: func(x *execution, out *operand, in []*operand) {
					x.b.QKNormRopeGradX(out.buf, in[0].buf, in[1].buf, in[2].aux[0], in[2].aux[1], in[3].buf, eps, h, x.T)
				}}
			terms := []func() (*gorgonia.Node, error){grad(gx, dout, in[0], in[1], in[2]), nil, nil}
			if trainable {
				terms[1] = grad(&op{name: "qk-norm+rope " + what + ", gradient to weights", arity: 3, rows: 2, width: h.Dim, inPlace: -1,
					aux: []int{h.Dim, h.Dim},
					run: func(x *execution, out *operand, in []*operand) {
						x.b.QKNormRopeGradW(out.aux[0], out.aux[1], in[0].buf, in[1].buf, in[2].buf, eps, h, x.T)
					}}, dout, in[0], in[2])
			}
			return grads(terms...)
		},
	}
}

// attentionOp: causal attention inside each sequence of a packed batch. Input qkv; beside its output
// it keeps the log of each softmax's sum.
func attentionOp(what string, h kernels.Heads) *op {
	return &op{
		name: "attention " + what, arity: 1, width: h.OutWidth(), wrt: []bool{true}, inPlace: -1, aux: []int{h.Q}, keep: true,
		run: func(x *execution, out *operand, in []*operand) {
			x.b.Attention(out.buf, out.aux[0], in[0].buf, x.spans, h, x.T)
		},
		diff: func(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &op{name: "attention " + what + ", gradient to qkv", arity: 3, width: h.Width(), inPlace: -1,
				run: func(x *execution, out *operand, in []*operand) {
					x.b.AttentionGrad(out.buf, in[0].buf, in[1].buf, in[2].buf, in[2].aux[0], x.spans, h, x.T)
				}}
			return grads(grad(g, dout, in[0], out))
		},
	}
}

// swiGLUOp: input the packed (gate | up).
func swiGLUOp(what string, n int) *op {
	return &op{
		name: "swiglu " + what, arity: 1, width: n, wrt: []bool{true}, inPlace: -1,
		run: func(x *execution, out *operand, in []*operand) { x.b.SwiGLU(out.buf, in[0].buf, n, x.T) },
		diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &op{name: "swiglu " + what + ", gradient", arity: 2, width: 2 * n, inPlace: -1,
				run: func(x *execution, out *operand, in []*operand) {
					x.b.SwiGLUGrad(out.buf, in[0].buf, in[1].buf, n, x.T)
				}}
			return grads(grad(g, dout, in[0]))
		},
	}
}

// addOp joins a branch to the residual stream.
func addOp(what string, width int, checkpoint bool) *op {
	return &op{
		name: "add " + what, arity: 2, width: width, wrt: []bool{true, true}, inPlace: 1, keep: true, checkpoint: checkpoint,
		run: runAdd(width),
		diff: func(_ gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			return gorgonia.Nodes{dout, dout}, nil
		},
	}
}

// sumOp stands in for the node with which gorgonia sums the gradients of a value that has two
// consumers.
func sumOp(width int) *op {
	return &op{name: "sum of gradients", arity: 2, width: width, inPlace: 0, run: runAdd(width)}
}

func runAdd(width int) func(*execution, *operand, []*operand) {
	return func(x *execution, out *operand, in []*operand) {
		x.b.Add(out.buf, in[0].buf, in[1].buf, x.T*width)
	}
}

// pagedAttentionOp: attention of a decoder's rows, whose keys and values join those in the cache. It
// writes to the cache, so its name must tell the layer even where two layers are alike.
func pagedAttentionOp(layer int, h kernels.Heads, c kernels.Cache) *op {
	return &op{
		name: fmt.Sprintf("paged attention of layer %d", layer), arity: 1, width: h.OutWidth(), inPlace: -1, keep: true,
		run: func(x *execution, out *operand, in []*operand) {
			x.b.PagedAttention(out.buf, in[0].buf, c, layer, x.paged, h, x.T)
		},
	}
}

// gatherOp: the rows that a decoder draws from. Inputs x, row numbers.
func gatherOp(width int) *op {
	return &op{
		name: "rows to draw from", arity: 2, width: width, inPlace: -1, keep: true,
		run: func(x *execution, out *operand, in []*operand) {
			x.b.Gather(out.buf, in[0].buf, in[1].buf, width, x.draws)
		},
	}
}
