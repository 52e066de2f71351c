package model

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/seed-7879b91d/grpo/kernels"
)

// linearOp: out [T, N] = alpha · x [T, K] · wᵀ + bias. Inputs x, w and, where there is one, bias.
type linearOp struct {
	what      string // which matrix, for people
	n, k      int
	alpha     float32
	bias      bool
	trainable bool
}

func (l linearOp) op() *op {
	o := &op{
		name: fmt.Sprintf("linear %s [%d,%d] ×%g", l.what, l.n, l.k, l.alpha), arity: 2, width: l.n,
		wrt: []bool{true, l.trainable}, inPlace: -1, keep: true,
		run: func(x *execution, out *operand, in []*operand) {
			opt := kernels.LinearOpt{Alpha: l.alpha}
			if l.bias {
				opt.Bias = in[2].buf
			}
			x.b.Linear(out.cols(), in[0].cols(), in[1].mat, opt, x.T)
		},
	}
	if l.bias {
		o.arity, o.wrt = 3, append(o.wrt, l.trainable)
	}
	o.diff = func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
		terms := []func() (*gorgonia.Node, error){grad(l.gradX(), dout, in[1]), nil}
		if l.trainable {
			terms[1] = grad(l.gradW(), dout, in[0])
		}
		if l.bias {
			terms = append(terms, nil)
			if l.trainable {
				terms[2] = grad(l.gradBias(), dout)
			}
		}
		return grads(terms...)
	}
	return o
}

func (l linearOp) gradX() *op {
	return &op{name: fmt.Sprintf("linear %s [%d,%d] ×%g, gradient to x", l.what, l.n, l.k, l.alpha), arity: 2, width: l.k, inPlace: -1,
		run: func(x *execution, out *operand, in []*operand) {
			x.b.LinearGradX(out.cols(), in[0].cols(), in[1].mat, kernels.LinearOpt{Alpha: l.alpha}, x.T)
		}}
}

func (l linearOp) gradW() *op {
	return &op{name: fmt.Sprintf("linear %s ×%g, gradient to w", l.what, l.alpha), arity: 2, rows: l.n, width: l.k, inPlace: -1,
		run: func(x *execution, out *operand, in []*operand) {
			x.b.LinearGradW(out.buf, in[0].cols(), in[1].cols(), l.alpha, x.T)
		}}
}

func (l linearOp) gradBias() *op {
	return &op{name: fmt.Sprintf("linear %s, gradient to bias", l.what), arity: 1, rows: 1, width: l.n, inPlace: -1,
		run: func(x *execution, out *operand, in []*operand) { x.b.BiasGrad(out.buf, in[0].cols(), x.T) }}
}

// loraUpOp adds what an adapter has to say to the output of a packed linear:
// out = base, and in each window += z[its rank columns] · Bᵀ. Inputs base, z, and one B per window.
type loraUpOp struct {
	what    string
	width   int
	rank    int
	windows []window
}

// window is the part of a packed output that belongs to one target.
type window struct{ from, n int }

func (l loraUpOp) op() *op {
	o := &op{
		name: "lora up " + l.what, arity: 2 + len(l.windows), width: l.width,
		wrt: make([]bool, 2+len(l.windows)), inPlace: 0, mutates: true, keep: true,
		run: func(x *execution, out *operand, in []*operand) {
			for i, w := range l.windows {
				x.b.Linear(out.window(w.from, w.n), in[1].window(i*l.rank, l.rank), in[2+i].mat, kernels.LinearOpt{Alpha: 1, Accumulate: true}, x.T)
			}
		},
	}
	for i := range o.wrt {
		o.wrt[i] = true
	}
	o.diff = func(in gorgonia.Nodes, _, dout *gorgonia.Node) (gorgonia.Nodes, error) {
		terms := []func() (*gorgonia.Node, error){same(dout), grad(l.gradZ(), append(gorgonia.Nodes{dout}, in[2:]...)...)}
		for i := range l.windows {
			terms = append(terms, grad(l.gradB(i), dout, in[1]))
		}
		return grads(terms...)
	}
	return o
}

func (l loraUpOp) gradZ() *op {
	return &op{name: "lora up " + l.what + ", gradient to z", arity: 1 + len(l.windows), width: l.rank * len(l.windows), inPlace: -1,
		run: func(x *execution, out *operand, in []*operand) {
			for i, w := range l.windows {
				x.b.LinearGradX(out.window(i*l.rank, l.rank), in[0].window(w.from, w.n), in[1+i].mat, kernels.LinearOpt{Alpha: 1}, x.T)
			}
		}}
}

func (l loraUpOp) gradB(i int) *op {
	w := l.windows[i]
	return &op{name: fmt.Sprintf("lora up %s, gradient to B %d", l.what, i), arity: 2, rows: w.n, width: l.rank, inPlace: -1,
		run: func(x *execution, out *operand, in []*operand) {
			x.b.LinearGradW(out.buf, in[0].window(w.from, w.n), in[1].window(i*l.rank, l.rank), 1, x.T)
		}}
}
