package ops

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// RopeTable: the angles of every row, shared by all layers. Inputs positions, frequencies.
func RopeTable(scale float64, dim int) *program.Op {
	return &program.Op{
		Name: "rope table", Inputs: 2, Width: dim, WRT: []bool{false, false}, Keep: true, Checkpoint: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.RopeTable(out.Buf, in[0].Buf, in[1].Buf, scale, dim, x.T)
		},
	}
}

// Rope: inputs qkv, rope table.
func Rope(what string, a kernels.Attn) *program.Op {
	turn := func(back bool) func(x *program.Execution, out *program.Operand, in []*program.Operand) {
		return func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.Rope(out.Buf, in[0].Buf, in[1].Buf, back, a, x.T)
		}
	}
	return &program.Op{
		Name: "rope " + what, Inputs: 2, Width: a.Width(), WRT: []bool{true, false}, HalfInputs: []int{1}, Rounded: true,
		Run: turn(false),
		Diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &program.Op{Name: "rope " + what + ", gradient to qkv", Inputs: 2, Width: a.Width(), Rounded: true, Run: turn(true)}
			return gradients(gradientOf(g, dout, in[1]), nil)
		},
	}
}

// QKNormRope: inputs qkv, the two head norms' weights [2, Dim] as planes, rope table.
func QKNormRope(what string, a kernels.Attn, eps float32, trainable bool) *program.Op {
	h := a.Heads
	return &program.Op{
		Name: "qk-norm+rope " + what, Inputs: 3, Width: h.Width(), WRT: []bool{true, trainable, false}, HalfInputs: []int{1},
		Rounded: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.QKNormRope(out.Buf, in[0].Buf, in[1].Aux[0], in[1].Aux[1], in[2].Buf, eps, a, x.T)
		},
		Diff: func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			gx := &program.Op{Name: "qk-norm+rope " + what + ", gradient to qkv", Inputs: 4, Width: h.Width(), HalfInputs: []int{2}, Rounded: true,
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.QKNormRopeGradX(out.Buf, in[0].Buf, in[1].Buf, in[2].Aux[0], in[2].Aux[1], in[3].Buf, eps, h, x.T)
				}}
			gw := &program.Op{
				Name: "qk-norm+rope " + what + ", gradient to weights", Inputs: 3, Rows: 2, Width: h.Dim, Aux: []int{h.Dim, h.Dim},
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.QKNormRopeGradW(out.Aux[0], out.Aux[1], in[0].Buf, in[1].Buf, in[2].Buf, eps, h, x.T)
				}}
			return gradients(gradientOf(gx, dout, in[0], in[1], in[2]), gradientIf(trainable, gw, dout, in[0], in[2]), nil)
		},
	}
}

// Attention: causal attention inside each sequence of a packed batch. Input qkv; a plane of the output
// keeps the log of each softmax's sum. Keys and values are of type kv, that of a decoder's cache.
func Attention(run *Run, what string, a kernels.Attn, kv kernels.DType) *program.Op {
	rounds := func(input int) []int {
		if kv == kernels.BF16 {
			return []int{input}
		}
		return nil
	}
	return &program.Op{
		Name: "attention " + what, Inputs: 1, Width: a.OutWidth(), WRT: []bool{true}, Aux: []int{a.Q}, Keep: true, Halve: true,
		RoundedInputs: rounds(1),
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.Attention(out.Buf, out.Aux[0], in[0].Buf, run.Spans, a, kv, x.T)
		},
		Diff: func(in gorgonia.Nodes, out, dout *gorgonia.Node) (gorgonia.Nodes, error) {
			g := &program.Op{Name: "attention " + what + ", gradient to qkv", Inputs: 3, Width: a.Width(), RoundedInputs: rounds(2),
				Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
					x.B.AttentionGrad(out.Buf, in[0].Buf, in[1].Buf, in[2].Buf, in[2].Aux[0], run.Spans, a, kv, x.T)
				}}
			return gradients(gradientOf(g, dout, in[0], out))
		},
	}
}

// PagedAttention: attention of a decoder's rows, whose keys and values are added to the cache. Because of
// that side effect its name must have the layer: equal operations are merged.
func PagedAttention(run *Run, layer int, a kernels.Attn, c kernels.Cache) *program.Op {
	return &program.Op{
		Name: fmt.Sprintf("paged attention of layer %d", layer), Inputs: 1, Width: a.OutWidth(), Keep: true,
		Run: func(x *program.Execution, out *program.Operand, in []*program.Operand) {
			x.B.PagedAttention(out.Buf, in[0].Buf, c, layer, run.Paged, a, x.T)
		},
	}
}
