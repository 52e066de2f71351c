package kerneltest

import (
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

// singles are units of one row.
func singles() (units [][]int) {
	n := 100
	if emulated {
		n = 40
	}
	for i := range n {
		units = append(units, []int{i})
	}
	return units
}

// sequences are units of consecutive rows, of these lengths.
func sequences(lengths ...int) (units [][]int) {
	first := 0
	for _, n := range lengths {
		unit := make([]int, n)
		for i := range unit {
			unit[i] = first + i
		}
		units, first = append(units, unit), first+n
	}
	return units
}

// headShapes cover the ratios 1, 2 and 6 of query to key heads, and head sizes of real models.
var headShapes = []kernels.Heads{
	{Q: 1, KV: 1, Dim: 10}, {Q: 6, KV: 1, Dim: 16}, {Q: 3, KV: 3, Dim: 32},
	{Q: 4, KV: 2, Dim: 64}, {Q: 2, KV: 1, Dim: 128},
}

// rowCases are the operations whose outputs belong to rows.
func rowCases(o Tolerance) (cases []opCase) {
	add := func(name string, tolerance float64, run func(c *call)) {
		cases = append(cases, opCase{name, tolerance, singles(), nil, run})
	}
	addLinear(add, o)
	addPoint(add, o.F32)
	addHead(add, o)
	addAttention(&cases, o)
	return cases
}

type adder func(name string, tolerance float64, run func(c *call))

var matrixTypes = []kernels.DType{kernels.BF16, kernels.BF16Rounding, kernels.F32}

func addLinear(add adder, within Tolerance) {
	for _, s := range []struct{ n, k int }{{1, 1}, {7, 33}, {33, 7}, {100, 70}, {65, 257}, {9, 1100}, {150, 34}} {
		for _, dtype := range matrixTypes {
			for i, o := range []kernels.LinearOpt{{Alpha: 1}, {Alpha: -0.5, Accumulate: true}} {
				name := fmt.Sprintf("%v/%dx%d/alpha=%v", dtype, s.n, s.k, o.Alpha)
				add("Linear/"+name, within.of(dtype), func(c *call) {
					o := o
					if i == 1 {
						o.Bias = c.param(s.n)
					}
					c.Linear(c.outCols(s.n, o.Accumulate), c.cols(s.k), c.matrix(dtype, s.n, s.k), o, c.T)
				})
				add("LinearGradX/"+name, within.of(dtype), func(c *call) {
					c.LinearGradX(c.outCols(s.k, o.Accumulate), c.cols(s.n), c.matrix(dtype, s.n, s.k), o, c.T)
				})
			}
		}
	}
}

func addPoint(add adder, rounding float64) {
	for _, dtype := range matrixTypes {
		add(fmt.Sprintf("Embed/%v", dtype), 0, func(c *call) {
			c.Embed(c.out(37), c.matrix(dtype, 50, 37), c.ids(0, 50), c.T)
		})
	}
	for _, width := range []int{1, 19, 64} {
		add(fmt.Sprintf("Gather/%d", width), 0, func(c *call) {
			c.Gather(c.out(width), c.param(50*width), c.ids(0, 50), width, c.T)
		})
	}
	addRows(add, rounding)
	add("Add/in place", 0, func(c *call) {
		x := c.inout(5, normal)
		c.Add(x, x, c.in(5), 5*c.T)
	})
	add("Scale/in place", 0, func(c *call) {
		x := c.inout(5, normal)
		c.Scale(x, x, -3, 5*c.T)
	})
	addRope(add, rounding)
	step := kernels.AdamStep{
		LR: 0.1, Beta1: 0.9, Beta2: 0.95, Eps: 0.01, WeightDecay: 0.2, GradScale: 0.7,
		Correction1: 0.19, Correction2: 0.0975,
	}
	add("Adam", rounding, func(c *call) {
		c.Adam(c.inout(3, normal), c.inout(3, normal), c.inout(3, positive), c.in(3), step, 3*c.T)
	})
}

// normEps is large, so that an eps in the wrong place shows.
const normEps = 0.3

// addRows are norms, gates and sums over rows of several widths.
func addRows(add adder, rounding float64) {
	for i, h := range []int{1, 7, 33, 100, 256} {
		n := kernels.Norm{Eps: normEps, Offset: float32(i % 2)}
		add(fmt.Sprintf("RMSNorm/%d", h), rounding, func(c *call) {
			c.RMSNorm(c.out(h), c.in(h), c.param(h), n, h, c.T)
		})
		add(fmt.Sprintf("RMSNormGradX/%d", h), rounding, func(c *call) {
			c.RMSNormGradX(c.out(h), c.in(h), c.in(h), c.param(h), n, h, c.T)
		})
		add(fmt.Sprintf("SwiGLU/%d", h), rounding, func(c *call) {
			c.SwiGLU(c.out(h), c.inOf(2*h, wide), h, c.T)
		})
		add(fmt.Sprintf("SwiGLUGrad/%d", h), rounding, func(c *call) {
			c.SwiGLUGrad(c.out(2*h), c.in(h), c.inOf(2*h, wide), h, c.T)
		})
		add(fmt.Sprintf("GeGLU/%d", h), rounding, func(c *call) {
			c.GeGLU(c.out(h), c.inOf(2*h, wide), h, c.T)
		})
		add(fmt.Sprintf("GeGLUGrad/%d", h), rounding, func(c *call) {
			c.GeGLUGrad(c.out(2*h), c.in(h), c.inOf(2*h, wide), h, c.T)
		})
		add(fmt.Sprintf("Scale/%d", h), 0, func(c *call) {
			c.Scale(c.out(h), c.in(h), 9.8125, h*c.T)
		})
		add(fmt.Sprintf("Add/%d", h), 0, func(c *call) {
			c.Add(c.out(h), c.in(h), c.in(h), h*c.T)
		})
	}
}

// addRope are the rotations of heads.
func addRope(add adder, rounding float64) {
	add("RopeTable", 1e-7, func(c *call) {
		c.RopeTable(c.out(64), c.ids(0, 40000), c.frequencies(5e6, 64), 1, 64, c.T)
	})
	add("RopeTable/scaled", 2e-7, func(c *call) {
		c.RopeTable(c.out(10), c.ids(0, 40000), c.frequencies(1e4, 10), 1.2079, 10, c.T)
	})
	for _, h := range headShapes {
		for _, back := range []bool{false, true} {
			add(fmt.Sprintf("Rope/%v back=%v", h, back), rounding, func(c *call) {
				c.Rope(c.out(h.Width()), c.in(h.Width()), c.rope(h), back, kernels.Attn{Heads: h}, c.T)
			})
		}
		add(fmt.Sprintf("QKNormRope/%v", h), rounding, func(c *call) {
			c.QKNormRope(c.out(h.Width()), c.in(h.Width()), c.param(h.Dim), c.param(h.Dim), c.rope(h), normEps, kernels.Attn{Heads: h}, c.T)
		})
		add(fmt.Sprintf("QKNormRopeGradX/%v", h), rounding, func(c *call) {
			c.QKNormRopeGradX(c.out(h.Width()), c.in(h.Width()), c.in(h.Width()), c.param(h.Dim), c.param(h.Dim),
				c.rope(h), normEps, h, c.T)
		})
	}
}

// frequencies are theta^(−2i/dim).
func (m *backend) frequencies(theta float64, dim int) kernels.Buffer {
	b, f := m.zeros(kernels.F64, dim/2), make([]float64, dim/2)
	for i := range f {
		f[i] = math.Pow(theta, -2*float64(i)/float64(dim))
	}
	m.Upload(b, f)
	return b
}

// rope is a table for random positions.
func (c *call) rope(h kernels.Heads) kernels.Buffer {
	table := c.zeros(kernels.F32, c.T*h.Dim)
	c.RopeTable(table, c.ids(0, 1000), c.frequencies(1e4, h.Dim), 1, h.Dim, c.T)
	return table
}

func addHead(add adder, o Tolerance) {
	for _, s := range []struct{ v, h int }{{1, 5}, {100, 33}, {331, 40}} {
		for _, dtype := range matrixTypes {
			tolerance := o.of(dtype)
			if dtype == kernels.BF16Rounding {
				tolerance = max(tolerance, 0x1p-9) // the weights of the Jacobian are rounded too, at a scale that backends may choose
			}
			// Logits of a few units: neither flat nor a single peak.
			for _, l := range []kernels.Logits{{InvTemp: 0.4}, {InvTemp: 0.7, Cap: 5}} {
				add(fmt.Sprintf("LogProb/%v/%dx%d %+v", dtype, s.v, s.h, l), tolerance, func(c *call) {
					out := kernels.LogProbOut{LogP: c.out(1), Entropy: c.out(1), LSE: c.out(1), Jacobian: c.out(s.h)}
					c.LogProb(out, c.in(s.h), c.matrix(dtype, s.v, s.h), c.ids(-s.v/4, s.v), l, c.T)
				})
			}
		}
	}
	for _, l := range []kernels.Logits{{InvTemp: 0.3}, {InvTemp: 1, Cap: 4}} {
		add(fmt.Sprintf("LogProb/without gradient %+v", l), o.BF16, func(c *call) {
			out := kernels.LogProbOut{LogP: c.out(1), Entropy: c.out(1), LSE: c.out(1)}
			c.LogProb(out, c.in(40), c.matrix(kernels.BF16, 600, 40), c.ids(0, 600), l, c.T)
		})
	}
	add("LogProbGradX", o.F32, func(c *call) {
		c.LogProbGradX(c.out(33), c.in(1), c.in(33), 33, c.T)
	})
}

// attnShapes are those of headShapes, and two with a window that ends inside blocks of keys, one of them with a cap of scores.
var attnShapes = func() (all []kernels.Attn) {
	for _, h := range headShapes {
		all = append(all, kernels.Attn{Heads: h})
	}
	return append(all, kernels.Attn{Heads: kernels.Heads{Q: 4, KV: 2, Dim: 20}, Scale: 0.4, Cap: 1.5, Window: 37},
		kernels.Attn{Heads: kernels.Heads{Q: 2, KV: 1, Dim: 12}, Window: 33})
}()

// cacheTypes are those of keys and values.
var cacheTypes = []kernels.DType{kernels.F32, kernels.BF16}

func addAttention(cases *[]opCase, o Tolerance) {
	shapes := trees()
	two := func() []tree { // two trees for each case, by turns, since they cost as much as everything else
		shapes = append(shapes[2:], shapes[:2]...)
		return shapes[:2:2]
	}
	for _, h := range attnShapes {
		addAttentionOver(cases, fmt.Sprint(h), o.F32, h, kernels.F32, two())
		addAttentionOver(cases, fmt.Sprintf("bf16 %v", h), o.Attention, h, kernels.BF16, two())
	}
}

func addAttentionOver(cases *[]opCase, name string, rounding float64, h kernels.Attn, kv kernels.DType, shapes []tree) {
	units := sequences(1, 2, 31, 32, 33, 70, 5, 64)
	var sizes []int
	for _, t := range shapes {
		sizes = append(sizes, t.rows())
	}
	attend := func(c *call) {
		c.Attention(c.out(h.OutWidth()), c.out(h.Q), c.in(h.Width()), c.spans(), h, kv, c.T)
	}
	gradient := func(c *call) {
		out, lse := c.zeros(kernels.F32, c.T*h.OutWidth()), c.zeros(kernels.F32, c.T*h.Q)
		qkv, s := c.in(h.Width()), c.spans()
		c.Attention(out, lse, qkv, s, h, kv, c.T)
		c.AttentionGrad(c.out(h.Width()), c.in(h.OutWidth()), qkv, out, lse, s, h, kv, c.T)
	}
	*cases = append(*cases, opCase{"Attention/" + name, rounding, units, nil, attend},
		opCase{"Attention/peaked " + name, 20 * rounding, units, nil, func(c *call) {
			// Scores of ±30: their absolute error is the relative error of their exponentials.
			c.Attention(c.out(h.OutWidth()), c.out(h.Q), c.inOf(h.Width(), wide), c.spans(), h, kv, c.T)
		}},
		opCase{"Attention/trees " + name, rounding, sequences(sizes...), shapes, attend},
		opCase{"AttentionGrad/" + name, 4 * rounding, units, nil, gradient},
		opCase{"AttentionGrad/trees " + name, 4 * rounding, sequences(sizes...), shapes, gradient})
}

// sumCases are the operations that sum over rows.
func sumCases(o Tolerance) (cases []opCase) {
	const eps = 0.3
	addWithin := func(name string, tolerance float64, run func(c *call)) {
		cases = append(cases, opCase{name, tolerance, singles(), nil, run})
	}
	addTyped := func(name string, t kernels.DType, run func(c *call)) { addWithin(name, o.of(t), run) }
	add := func(name string, run func(c *call)) { addTyped(name, kernels.F32, run) }
	for _, s := range []struct{ n, k int }{{1, 1}, {7, 33}, {33, 100}, {130, 65}} {
		add(fmt.Sprintf("LinearGradW/%dx%d", s.n, s.k), func(c *call) {
			c.LinearGradW(c.sum(s.k, s.n*s.k), c.cols(s.n), c.cols(s.k), -0.5, kernels.F32, c.T)
		})
		addWithin(fmt.Sprintf("LinearGradW/of bf16 %dx%d", s.n, s.k), 0x1p-6, func(c *call) { // which the reference does not round
			c.LinearGradW(c.sum(s.k, s.n*s.k), c.cols(s.n), c.cols(s.k), -0.3, kernels.BF16, c.T)
		})
		add(fmt.Sprintf("BiasGrad/%d", s.n), func(c *call) {
			c.BiasGrad(c.sum(s.n, s.n), c.cols(s.n), c.T)
		})
		add(fmt.Sprintf("RMSNormGradW/%d", s.k), func(c *call) {
			c.RMSNormGradW(c.sum(s.k, s.k), c.in(s.k), c.in(s.k), kernels.Norm{Eps: eps, Offset: 1}, s.k, c.T)
		})
		add(fmt.Sprintf("EmbedGrad/%dx%d", s.n, s.k), func(c *call) {
			c.EmbedGrad(c.sum(s.k, s.n*s.k), c.in(s.k), c.ids(0, s.n), s.n, s.k, c.T)
		})
		for _, dtype := range matrixTypes {
			l := kernels.Logits{InvTemp: 0.4, Cap: float32(s.n % 2 * 5)}
			within := o.of(dtype)
			if dtype == kernels.BF16Rounding {
				within = o.HeadGradW
			}
			addWithin(fmt.Sprintf("LogProbGradW/%v/%dx%d", dtype, s.n, s.k), within, func(c *call) {
				h, w, targets := c.in(s.k), c.matrix(dtype, s.n, s.k), c.ids(-s.n/4, s.n)
				lse := c.zeros(kernels.F32, c.T)
				out := kernels.LogProbOut{LogP: c.zeros(kernels.F32, c.T), Entropy: c.zeros(kernels.F32, c.T), LSE: lse}
				c.LogProb(out, h, w, targets, l, c.T)
				c.LogProbGradW(c.sum(s.k, s.n*s.k), c.in(1), h, w, targets, lse, l, c.T)
			})
		}
	}
	for _, h := range headShapes {
		add(fmt.Sprintf("QKNormRopeGradW/%v", h), func(c *call) {
			c.QKNormRopeGradW(c.sum(h.Dim, h.Dim), c.sum(h.Dim, h.Dim), c.in(h.Width()), c.in(h.Width()), c.rope(h),
				eps, h, c.T)
		})
	}
	return cases
}
