package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// gradientCase is an operation as a function of one operand, and its gradient with respect to that operand.
type gradientCase struct {
	name     string
	n        int                                              // numbers of the operand
	forward  func(m *backend, x []float32) kernels.Buffer     // F32, or F64 for a loss
	gradient func(m *backend, x, dy []float32) kernels.Buffer // given the gradient of the output
}

// testGradients compares every gradient with finite differences of the reference, so that it does not rely on
// the reference's own gradients.
func testGradients(t *testing.T, s suite) {
	for _, c := range gradientCases() {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed(c.name), 0))
			x := dyadicNormals(random, c.n)
			ref := s.reference
			dy := make([]float32, c.forward(ref, x).Len())
			for i := range dy {
				dy[i] = normal(random)
			}
			want := output{width: 1, data: make([]float32, c.n)}
			for i := range x {
				want.data[i] = float32(ref.finiteDifference(c, x, dy, i))
			}
			m := s.backends[1]
			got := output{width: 1, data: m.read(c.gradient(m, x, dy))[:c.n]}
			nearSlice(t, m.Name(), 0, 1e-4, want, got)
		})
	}
}

// dyadicNormals are random multiples of 1/1024, so that adding a step of 1/64 or 1/32 is exact.
func dyadicNormals(random *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Round(1024*random.NormFloat64()) / 1024)
	}
	return x
}

// finiteDifference approximates the derivative of Σ dy·forward(x) by x[i] from four points, with an error of fourth order.
func (m *backend) finiteDifference(c gradientCase, x, dy []float32, i int) float64 {
	at := func(step float32) (sum float64) {
		old := x[i]
		x[i] += step
		y := c.forward(m, x)
		x[i] = old
		if y.DType() == kernels.F64 {
			for k, v := range m.read64(y) {
				sum += float64(dy[k]) * v
			}
			return sum
		}
		for k, v := range m.read(y) {
			sum += float64(dy[k]) * float64(v)
		}
		return sum
	}
	const h = 1.0 / 64
	return (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
}

// fixedNormals are n fixed numbers for an operand. All of one name begin with the same numbers, so only the longest are cached.
func fixedNormals(name string, n int) []float32 {
	fixedCache.Lock()
	defer fixedCache.Unlock()
	if len(fixedCache.numbers[name]) < n {
		fixedCache.numbers[name] = operand{name, 0}.draw(0, n, normal)
	}
	return slices.Clone(fixedCache.numbers[name][:n])
}

var fixedCache = struct {
	sync.Mutex
	numbers map[string][]float32
}{numbers: map[string][]float32{}}

func gradientCases() []gradientCase {
	return slices.Concat(linearGradients(), normGradients(), ropeGradients(), rowGradients())
}

func linearGradients() []gradientCase {
	const N, K, T = 5, 7, 3
	const alpha = -0.7
	o := kernels.LinearOpt{Alpha: alpha}
	product := func(m *backend, x, w, bias []float32) kernels.Buffer {
		y, o := m.zeros(kernels.F32, T*N), o
		o.Bias = m.f32(bias...)
		m.Linear(kernels.Whole(y, N), kernels.Whole(m.f32(x...), K), m.load(kernels.F32, N, K, w), o, T)
		return y
	}
	x, w, bias := fixedNormals("x", T*K), fixedNormals("w", N*K), fixedNormals("bias", N)
	return []gradientCase{
		{"LinearGradX", T * K,
			func(m *backend, x []float32) kernels.Buffer { return product(m, x, w, bias) },
			func(m *backend, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*K)
				m.LinearGradX(kernels.Whole(dx, K), kernels.Whole(m.f32(dy...), N), m.load(kernels.F32, N, K, w), o, T)
				return dx
			}},
		{"LinearGradW", N * K,
			func(m *backend, w []float32) kernels.Buffer { return product(m, x, w, bias) },
			func(m *backend, w, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, N*K)
				m.LinearGradW(dw, kernels.Whole(m.f32(dy...), N), kernels.Whole(m.f32(x...), K), alpha, kernels.F32, T)
				return dw
			}},
		{"BiasGrad", N,
			func(m *backend, bias []float32) kernels.Buffer { return product(m, x, w, bias) },
			func(m *backend, bias, dy []float32) kernels.Buffer {
				db := m.zeros(kernels.F32, N)
				m.BiasGrad(db, kernels.Whole(m.f32(dy...), N), T)
				return db
			}},
		{"EmbedGrad", N * K,
			func(m *backend, table []float32) kernels.Buffer {
				y := m.zeros(kernels.F32, T*K)
				m.Embed(y, m.load(kernels.F32, N, K, table), m.i32(3, 0, 3), T)
				return y
			},
			func(m *backend, table, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, N*K)
				m.EmbedGrad(dw, m.f32(dy...), m.i32(3, 0, 3), N, K, T)
				return dw
			}},
	}
}

// normGradients are the norm and the gate of a block.
func normGradients() []gradientCase {
	const H, T = 9, 3
	const eps = 0.3
	x, w := fixedNormals("x", T*H), fixedNormals("w", H)
	n := kernels.Norm{Eps: eps, Offset: 1}
	norm := func(m *backend, x, w []float32) kernels.Buffer {
		y := m.zeros(kernels.F32, T*H)
		m.RMSNorm(y, m.f32(x...), m.f32(w...), n, H, T)
		return y
	}
	return []gradientCase{
		{"RMSNormGradX", T * H,
			func(m *backend, x []float32) kernels.Buffer { return norm(m, x, w) },
			func(m *backend, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*H)
				m.RMSNormGradX(dx, m.f32(dy...), m.f32(x...), m.f32(w...), n, H, T)
				return dx
			}},
		{"RMSNormGradW", H,
			func(m *backend, w []float32) kernels.Buffer { return norm(m, x, w) },
			func(m *backend, w, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, H)
				m.RMSNormGradW(dw, m.f32(dy...), m.f32(x...), n, H, T)
				return dw
			}},
		{"SwiGLUGrad", T * 2 * H,
			func(m *backend, x []float32) kernels.Buffer {
				y := m.zeros(kernels.F32, T*H)
				m.SwiGLU(y, m.f32(x...), H, T)
				return y
			},
			func(m *backend, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*2*H)
				m.SwiGLUGrad(dx, m.f32(dy...), m.f32(x...), H, T)
				return dx
			}},
		{"GeGLUGrad", T * 2 * H,
			func(m *backend, x []float32) kernels.Buffer {
				y := m.zeros(kernels.F32, T*H)
				m.GeGLU(y, m.f32(x...), H, T)
				return y
			},
			func(m *backend, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*2*H)
				m.GeGLUGrad(dx, m.f32(dy...), m.f32(x...), H, T)
				return dx
			}},
	}
}

// ropeGradients are those of the norm and rotation of queries and keys.
func ropeGradients() []gradientCase {
	const T = 3
	const eps = 0.3
	h := kernels.Heads{Q: 2, KV: 1, Dim: 6}
	qkv, w := fixedNormals("qkv", T*h.Width()), fixedNormals("w2", 2*h.Dim)
	rope := func(m *backend) kernels.Buffer {
		table := m.zeros(kernels.F32, T*h.Dim)
		m.RopeTable(table, m.i32(0, 5, 900), m.frequencies(1e4, h.Dim), 1.1, h.Dim, T)
		return table
	}
	qkRope := func(m *backend, qkv, w []float32) kernels.Buffer {
		y := m.zeros(kernels.F32, T*h.Width())
		m.QKNormRope(y, m.f32(qkv...), m.f32(w[:h.Dim]...), m.f32(w[h.Dim:]...), rope(m), eps, kernels.Attn{Heads: h}, T)
		return y
	}
	return []gradientCase{
		{"Rope", T * h.Width(),
			func(m *backend, x []float32) kernels.Buffer {
				y := m.zeros(kernels.F32, T*h.Width())
				m.Rope(y, m.f32(x...), rope(m), false, kernels.Attn{Heads: h}, T)
				return y
			},
			func(m *backend, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*h.Width())
				m.Rope(dx, m.f32(dy...), rope(m), true, kernels.Attn{Heads: h}, T)
				return dx
			}},
		{"QKNormRopeGradX", T * h.Width(),
			func(m *backend, qkv []float32) kernels.Buffer { return qkRope(m, qkv, w) },
			func(m *backend, qkv, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*h.Width())
				m.QKNormRopeGradX(dx, m.f32(dy...), m.f32(qkv...), m.f32(w[:h.Dim]...), m.f32(w[h.Dim:]...), rope(m),
					eps, h, T)
				return dx
			}},
		{"QKNormRopeGradW", 2 * h.Dim,
			func(m *backend, w []float32) kernels.Buffer { return qkRope(m, qkv, w) },
			func(m *backend, w, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, 2*h.Dim)
				m.QKNormRopeGradW(dw.Slice(0, h.Dim), dw.Slice(h.Dim, 2*h.Dim), m.f32(dy...), m.f32(qkv...), rope(m),
					eps, h, T)
				return dw
			}},
	}
}

// rowGradients are attention, the head and the loss.
func rowGradients() (list []gradientCase) {
	h := kernels.Heads{Q: 4, KV: 2, Dim: 6}
	list = append(list, attentionGradient("AttentionGrad", kernels.Attn{Heads: h}),
		attentionGradient("AttentionGrad/bent, in a window", kernels.Attn{Heads: h, Scale: 0.7, Cap: 1.5, Window: 3}))
	for _, l := range []kernels.Logits{{InvTemp: 0.6}, {InvTemp: 0.6, Cap: 2}} {
		list = append(list, headGradients(l)...)
	}
	for _, kind := range []kernels.LossKind{kernels.ImportanceSampling, kernels.PPO, kernels.CrossEntropy} {
		list = append(list, lossGradient(kind))
	}
	return list
}

func attentionGradient(name string, h kernels.Attn) gradientCase {
	const T = 12 // a sequence of one row, one of six, and two with a common prefix
	spans := func(m *backend) kernels.Spans {
		return m.spansOf(tree{[]int{1}, []int{-1}}, tree{[]int{6}, []int{-1}}, tree{[]int{2, 1, 2}, []int{-1, 0, 0}})
	}
	attend := func(m *backend, qkv kernels.Buffer) (out, lse kernels.Buffer) {
		out, lse = m.zeros(kernels.F32, T*h.OutWidth()), m.zeros(kernels.F32, T*h.Q)
		m.Attention(out, lse, qkv, spans(m), h, kernels.F32, T)
		return out, lse
	}
	return gradientCase{name, T * h.Width(),
		func(m *backend, x []float32) kernels.Buffer {
			out, _ := attend(m, m.f32(x...))
			return out
		},
		func(m *backend, x, dy []float32) kernels.Buffer {
			qkv, dx := m.f32(x...), m.zeros(kernels.F32, T*h.Width())
			out, lse := attend(m, qkv)
			m.AttentionGrad(dx, m.f32(dy...), qkv, out, lse, spans(m), h, kernels.F32, T)
			return dx
		}}
}

func headGradients(l kernels.Logits) []gradientCase {
	const V, H, rows = 11, 5, 3
	hidden, w := fixedNormals("hidden", rows*H), fixedNormals("w", V*H)
	head := func(m *backend, hidden, w []float32) kernels.LogProbOut {
		out := kernels.LogProbOut{
			LogP: m.zeros(kernels.F32, rows), Entropy: m.zeros(kernels.F32, rows),
			LSE: m.zeros(kernels.F32, rows), Jacobian: m.zeros(kernels.F32, rows*H),
		}
		m.LogProb(out, m.f32(hidden...), m.load(kernels.F32, V, H, w), m.i32(4, -1, 10), l, rows)
		return out
	}
	return []gradientCase{
		{fmt.Sprintf("LogProbGradX %+v", l), rows * H,
			func(m *backend, x []float32) kernels.Buffer { return head(m, x, w).LogP },
			func(m *backend, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, rows*H)
				m.LogProbGradX(dx, m.f32(dy...), head(m, x, w).Jacobian, H, rows)
				return dx
			}},
		{fmt.Sprintf("LogProbGradW %+v", l), V * H,
			func(m *backend, w []float32) kernels.Buffer { return head(m, hidden, w).LogP },
			func(m *backend, w, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, V*H)
				m.LogProbGradW(dw, m.f32(dy...), m.f32(hidden...), m.load(kernels.F32, V, H, w), m.i32(4, -1, 10),
					head(m, hidden, w).LSE, l, rows)
				return dw
			}},
	}
}

// lossGradient is the derivative of a loss by the log-probabilities. CISPO has none in this sense: it treats its ratio as a constant.
func lossGradient(kind kernels.LossKind) gradientCase {
	const T = 6
	loss, _ := kernels.ParseLoss(kind.String())
	run := func(m *backend, logp []float32) (dlogp, stats kernels.Buffer) {
		dlogp, stats = m.zeros(kernels.F32, T), m.zeros(kernels.F64, kernels.NumStats)
		old := make([]float32, T) // ratios well inside, below and above every clip range
		for i := range old {
			old[i] = []float32{-3.02, -2.5, -3.5}[i%3]
		}
		m.Loss(dlogp, stats, kernels.LossIn{
			LogP: m.f32(logp...), Entropy: m.zeros(kernels.F32, T), OldLogP: m.f32(old...),
			Advantage: m.f32(1, 1, 1, -1, -2, -3), Weight: m.f32(1, 0.5, 0.25, 1, 0, 2),
		}, loss, T)
		return dlogp, stats.Slice(kernels.StatLoss, kernels.StatLoss+1)
	}
	nearMinus3 := func(x []float32) []float32 { // log-probabilities, close enough to −3 for their ratios to stay in one clip range
		logp := make([]float32, T)
		for i := range logp {
			logp[i] = -3 + x[i]/64
		}
		return logp
	}
	return gradientCase{"Loss/" + kind.String(), T,
		func(m *backend, x []float32) kernels.Buffer {
			_, loss := run(m, nearMinus3(x))
			return loss
		},
		func(m *backend, x, dy []float32) kernels.Buffer {
			dlogp, _ := run(m, nearMinus3(x))
			d := m.read(dlogp)
			for i := range d {
				d[i] *= dy[0] / 64
			}
			return m.f32(d...)
		}}
}
