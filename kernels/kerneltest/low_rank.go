package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// lowRankCase is a linear [n, k] with an adapter in some windows of its output.
type lowRankCase struct {
	n, k, rank int
	scale      float32
	windows    []kernels.Window
	w, adapter kernels.DType
	tiny       bool // gradients to x are about as large as the least normal number; and so are outputs, beside a bias
	bare       bool // the linear has no bias
}

// testLowRank: a linear with its adapter gives the bits of separate products, however a backend computes them.
func testLowRank(t *testing.T, m *backend) {
	all := []kernels.Window{{From: 0, N: 64}, {From: 64, N: 32}, {From: 96, N: 32}}
	for _, types := range [][2]kernels.DType{{kernels.F32, kernels.F32}, {kernels.BF16, kernels.F32},
		{kernels.BF16Rounding, kernels.BF16Rounding}, {kernels.BF16Rounding, kernels.F32}} {
		for _, c := range []lowRankCase{
			{n: 128, k: 96, rank: 16, scale: 2, windows: all},
			{n: 128, k: 70, rank: 5, scale: 0.7, windows: all[1:]},
			{n: 128, k: 96, rank: 32, scale: 1.3, windows: all[:2], tiny: true},
			{n: 100, k: 33, rank: 8, scale: 1, windows: []kernels.Window{{From: 0, N: 100}}},
			{n: 90, k: 64, rank: 3, scale: 1.1, windows: []kernels.Window{{From: 7, N: 40}, {From: 50, N: 33}}},
			{n: 64, k: 1100, rank: 24, scale: 0.5, windows: all[:1]},
			{n: 128, k: 96, rank: 16, scale: 2, windows: all, bare: true},
			{n: 64, k: 1100, rank: 24, scale: 0.5, windows: all[:1], tiny: true, bare: true},
			{n: 64, k: 96, rank: 16, scale: 1, windows: all[:1], tiny: true, bare: true},
			{n: 64, k: 96, rank: 8, scale: 0.5, windows: all[:1], tiny: true},
			{n: 288, k: 96, rank: 32, scale: 1, windows: []kernels.Window{{From: 0, N: 288}}, bare: true},
			{n: 544, k: 40, rank: 264, scale: 0.3, windows: []kernels.Window{{From: 0, N: 544}}},
			{n: 1152, k: 40, rank: 200, scale: 0.3, windows: []kernels.Window{{From: 0, N: 512}, {From: 512, N: 512}, {From: 1024, N: 128}}},
		} {
			if emulated && c.n > 128 {
				continue
			}
			c.w, c.adapter = types[0], types[1]
			for _, T := range []int{0, 1, 17, 70} {
				m.lowRank(t, c, T)
			}
		}
	}
}

func (m *backend) lowRank(t *testing.T, c lowRankCase, T int) {
	t.Helper()
	low := c.rank * len(c.windows)
	numbers := func(name string, n int) []float32 {
		x := fixedNormals(name, n)
		for i := range x {
			if c.tiny && name == "bias" {
				x[i] *= 0x1p-126
			} else if c.tiny && name != "A" && (name != "x" || !c.bare) {
				x[i] *= 0x1p-63
			}
		}
		return x
	}
	w := m.load(c.w, c.n, c.k, numbers("w", c.n*c.k))
	l := &kernels.LowRank{Scale: c.scale, Windows: c.windows, A: m.load(c.adapter, low, c.k, numbers("A", low*c.k))}
	for i, at := range c.windows {
		l.B = append(l.B, m.load(c.adapter, at.N, c.rank, numbers(fmt.Sprint("B", i), at.N*c.rank)))
	}
	wide := func(name string, width int) kernels.Cols {
		return kernels.Whole(m.f32(numbers(name, (T+1)*width)...), width)
	}
	x, dy, bias := wide("x", c.k), wide("dy", c.n), m.f32(numbers("bias", c.n)...)
	if c.bare {
		bias = nil
	}
	what := fmt.Sprintf("%+v, %d rows", c, T)

	z, out, dz, dx := wide("z", low), wide("out", c.n), wide("z", low), wide("dx", c.k)
	kernels.LinearLowRank(m.Backend, out, z, x, w, bias, l, T)
	kernels.LinearLowRankGradX(m.Backend, dx, dz, dy, w, l, T)

	z2, out2, dz2, dx2, more := wide("z", low), wide("out", c.n), wide("z", low), wide("dx", c.k), wide("dx", c.k)
	once := kernels.LinearOpt{Alpha: 1}
	m.Linear(z2, x, l.A, kernels.LinearOpt{Alpha: c.scale}, T)
	m.Linear(out2, x, w, kernels.LinearOpt{Alpha: 1, Bias: bias}, T)
	m.LinearGradX(dx2, dy, w, once, T)
	for i, at := range c.windows {
		between := kernels.Window{From: i * c.rank, N: c.rank}
		m.Linear(at.Of(out2.Buf, c.n), between.Of(z2.Buf, low), l.B[i], kernels.LinearOpt{Alpha: 1, Accumulate: true}, T)
		m.LinearGradX(between.Of(dz2.Buf, low), at.Of(dy.Buf, c.n), l.B[i], once, T)
	}
	m.LinearGradX(more, dz2, l.A, kernels.LinearOpt{Alpha: c.scale}, T)
	if T > 0 {
		m.Add(dx2.Buf, dx2.Buf, more.Buf, T*c.k)
	}
	for i, name := range []string{"z", "output", "gradient to z", "gradient to x"} {
		got, want := []kernels.Cols{z, out, dz, dx}[i], []kernels.Cols{z2, out2, dz2, dx2}[i]
		equal(t, name+" of "+what, result{{want.N, m.read(want.Buf)}}, result{{got.N, m.read(got.Buf)}})
	}
	if y := m.read(dx.Buf); c.tiny && T > 1 && !slices.ContainsFunc(y[:T*c.k], subnormal) {
		t.Errorf("%s: no gradient is subnormal, which this case is for", what)
	}
}

func subnormal(x float32) bool { return x != 0 && math.Abs(float64(x)) < 0x1p-126 }
