package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/oracle"
)

// testLaws checks exact properties, which the comparison with the reference cannot, because it allows for rounding.
func testLaws(t *testing.T, o Tolerance, m *backend) {
	t.Run("sums are added once", func(t *testing.T) { testAddedOnce(t, m) })
	t.Run("later rows change nothing", func(t *testing.T) { testCausal(t, m) })
	t.Run("trees are their sequences", func(t *testing.T) { testTrees(t, o, m) })
	t.Run("keys and values are rounded", func(t *testing.T) { testRoundedAttention(t, m) })
	t.Run("NaN and infinities do not spread", func(t *testing.T) { testNonfinite(t, m) })
	t.Run("rows without a target", func(t *testing.T) { testIgnoredTargets(t, m) })
	t.Run("sums of squares", func(t *testing.T) { testTinySquares(t, m) })
}

// testAddedOnce: an operation that accumulates adds its finished sum to the output, so that this is rounded once, not once
// for every term.
func testAddedOnce(t *testing.T, m *backend) {
	const N, K, T = 37, 90, 19
	x, dy, before := m.f32(fixedNormals("x", T*K)...), m.f32(fixedNormals("dy", T*N)...), fixedNormals("before", N*K+T*K)
	w := m.load(kernels.BF16, N, K, fixedNormals("w", N*K))
	check := func(name string, n int, run func(out kernels.Buffer, accumulate bool)) {
		fresh, added := m.zeros(kernels.F32, n), m.f32(before[:n]...)
		run(fresh, false)
		run(added, true)
		got := m.read(added)
		for i, sum := range m.read(fresh) {
			allowed := 0x1p-23 * (math.Abs(float64(before[i])) + math.Abs(float64(sum)))
			if want := float64(before[i]) + float64(sum); !(math.Abs(float64(got[i])-want) <= allowed) {
				t.Errorf("%s: %v + %v is %v", name, before[i], sum, got[i])
			}
		}
	}
	check("Linear", T*N, func(out kernels.Buffer, accumulate bool) {
		m.Linear(kernels.Whole(out, N), kernels.Whole(x, K), w, kernels.LinearOpt{Alpha: 1, Accumulate: accumulate}, T)
	})
	check("LinearGradX", T*K, func(out kernels.Buffer, accumulate bool) {
		m.LinearGradX(kernels.Whole(out, K), kernels.Whole(dy, N), w, kernels.LinearOpt{Alpha: 1, Accumulate: accumulate}, T)
	})
	check("LinearGradW", N*K, func(out kernels.Buffer, _ bool) {
		m.LinearGradW(out, kernels.Whole(dy, N), kernels.Whole(x, K), 1, kernels.F32, T)
	})
}

// testCausal: the first rows of a sequence are the same without the rest.
func testCausal(t *testing.T, m *backend) {
	const T = 100
	for i := range 2 * len(attnShapes) {
		h, kv := attnShapes[i/2], cacheTypes[i%2]
		qkv := m.f32(fixedNormals("qkv", T*h.Width())...)
		run := func(rows int) result {
			out, lse := m.zeros(kernels.F32, T*h.OutWidth()), m.zeros(kernels.F32, T*h.Q)
			m.Attention(out, lse, qkv, kernels.Spans{Starts: m.i32(0, int32(rows)), N: 1}, h, kv, rows)
			return result{{h.OutWidth(), m.read(out)}, {h.Q, m.read(lse)}}
		}
		whole := run(T)
		for _, rows := range []int{1, 2, 17, 31, 32, 33, 63, 64, 65, 99} {
			part := run(rows)
			for i := range part {
				n := rows * part[i].width
				equal(t, fmt.Sprintf("%v %v, %d rows", h, kv, rows),
					result{{part[i].width, whole[i].data[:n]}}, result{{part[i].width, part[i].data[:n]}})
			}
		}
	}
}

// testRoundedAttention: attention over keys and values in bf16 and its gradients are the same whether these are rounded before
// or not, and differ from attention over float32.
func testRoundedAttention(t *testing.T, m *backend) {
	const T = 70
	for _, h := range attnShapes {
		exact, dout := fixedNormals("qkv", T*h.Width()), m.f32(fixedNormals("dout", T*h.OutWidth())...)
		rounded := slices.Clone(exact)
		for t := range T {
			cached := rounded[t*h.Width()+h.OutWidth() : (t+1)*h.Width()]
			copy(cached, oracle.RoundedToBF16(cached))
		}
		run := func(x []float32, kv kernels.DType) result {
			out, lse, dqkv := m.zeros(kernels.F32, T*h.OutWidth()), m.zeros(kernels.F32, T*h.Q), m.zeros(kernels.F32, T*h.Width())
			qkv, s := m.f32(x...), kernels.Spans{Starts: m.i32(0, T), N: 1}
			m.Attention(out, lse, qkv, s, h, kv, T)
			m.AttentionGrad(dqkv, dout, qkv, out, lse, s, h, kv, T)
			return result{{h.OutWidth(), m.read(out)}, {h.Q, m.read(lse)}, {h.Width(), m.read(dqkv)}}
		}
		got := run(exact, kernels.BF16)
		equal(t, fmt.Sprint(h), run(rounded, kernels.BF16), got)
		for i, o := range run(exact, kernels.F32) {
			if slices.Equal(o.data, got[i].data) {
				t.Errorf("%v: output %d is that of keys and values in float32", h, i)
			}
		}
	}
}

// testIgnoredTargets: a negative target gives zeros, even for rows of NaN.
func testIgnoredTargets(t *testing.T, m *backend) {
	const V, H, T = 70, 9, 3
	h := fixedNormals("h", T*H)
	for i := range H {
		h[H+i] = poison
	}
	w := m.load(kernels.BF16, V, H, fixedNormals("w", V*H))
	outs := map[string]kernels.Buffer{}
	for name, n := range map[string]int{"logp": T, "entropy": T, "lse": T, "jacobian": T * H} {
		outs[name] = m.f32(slices.Repeat([]float32{poison}, n)...)
	}
	m.LogProb(kernels.LogProbOut{LogP: outs["logp"], Entropy: outs["entropy"], LSE: outs["lse"], Jacobian: outs["jacobian"]},
		m.f32(h...), w, m.i32(5, -1, 69), kernels.Logits{InvTemp: 1}, T)
	for name, b := range outs {
		x := m.read(b)
		n := len(x) / T
		for i, v := range x {
			if scored := i/n != 1; scored == (v == 0) || v != v {
				t.Errorf("%s of row %d is %v", name, i/n, v)
			}
		}
	}
	dw := m.zeros(kernels.F32, V*H)
	m.LogProbGradW(dw, m.f32(1, 1, 1), m.f32(h...), w, m.i32(-1, -1, -7), outs["lse"], kernels.Logits{InvTemp: 1}, T)
	m.expect(t, "the weight's gradient from rows without a target", dw, make([]float32, V*H)...)
}

// testTinySquares: sums of squares neither overflow nor underflow where float32 would, and read nothing after the last number.
func testTinySquares(t *testing.T, m *backend) {
	for _, x := range []float32{1e-30, 1e30, 1 + 1.0/(1<<20)} {
		for _, n := range []int{0, 1, 7, 31, 33, 5000, 100003} {
			out := m.zeros(kernels.F64, 1)
			m.SumSquares(out, m.f32(slices.Repeat([]float32{x}, n+1)...), n)
			want, got := float64(x)*float64(x)*float64(n), m.read64(out)[0]
			if math.Abs(got-want) > 1e-11*want {
				t.Errorf("%d times %v: %v, expected %v", n, x, got, want)
			}
		}
	}
}
