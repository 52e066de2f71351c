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

// slope is an operation as a function of one operand, and the gradient to that operand.
type slope struct {
	name     string
	n        int                                              // numbers of the operand
	forward  func(m *machine, x []float32) kernels.Buffer     // F32, or F64 for a loss
	gradient func(m *machine, x, dy []float32) kernels.Buffer // given the gradient of the output
}

// testSlopes compares every gradient with finite differences of the reference, so that it does not rely on
// the reference's own gradients.
func testSlopes(t *testing.T, s suite) {
	for _, c := range slopes() {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed(c.name), 0))
			x := grid(random, c.n)
			ref := s.reference
			dy := make([]float32, c.forward(ref, x).Len())
			for i := range dy {
				dy[i] = normal(random)
			}
			want := output{width: 1, data: make([]float32, c.n)}
			for i := range x {
				want.data[i] = float32(ref.difference(c, x, dy, i))
			}
			m := s.machines[1]
			got := output{width: 1, data: m.read(c.gradient(m, x, dy))[:c.n]}
			nearSlice(t, m.Name(), 0, 1e-4, want, got)
		})
	}
}

// grid are random multiples of 1/1024: a step of 1/64 or 1/32 away from them is exact.
func grid(random *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Round(1024*random.NormFloat64()) / 1024)
	}
	return x
}

// difference is the derivative of Σ dy·forward(x) by x[i], as a difference of four points with an error of fourth order.
func (m *machine) difference(c slope, x, dy []float32, i int) float64 {
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

// given are n fixed numbers for the other operands. Longer ones of the same name begin with the same numbers, so the longest are cached.
func given(name string, n int) []float32 {
	kept.Lock()
	defer kept.Unlock()
	if len(kept.numbers[name]) < n {
		kept.numbers[name] = operand{name, 0}.draw(0, n, normal)
	}
	return slices.Clone(kept.numbers[name][:n])
}

var kept = struct {
	sync.Mutex
	numbers map[string][]float32
}{numbers: map[string][]float32{}}

func slopes() []slope {
	return slices.Concat(linearSlopes(), normSlopes(), ropeSlopes(), rowSlopes())
}

func linearSlopes() []slope {
	const N, K, T = 5, 7, 3
	const alpha = -0.7
	o := kernels.LinearOpt{Alpha: alpha}
	product := func(m *machine, x, w, bias []float32) kernels.Buffer {
		y, o := m.zeros(kernels.F32, T*N), o
		o.Bias = m.f32(bias...)
		m.Linear(kernels.Whole(y, N), kernels.Whole(m.f32(x...), K), m.load(kernels.F32, N, K, w), o, T)
		return y
	}
	x, w, bias := given("x", T*K), given("w", N*K), given("bias", N)
	return []slope{
		{"LinearGradX", T * K,
			func(m *machine, x []float32) kernels.Buffer { return product(m, x, w, bias) },
			func(m *machine, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*K)
				m.LinearGradX(kernels.Whole(dx, K), kernels.Whole(m.f32(dy...), N), m.load(kernels.F32, N, K, w), o, T)
				return dx
			}},
		{"LinearGradW", N * K,
			func(m *machine, w []float32) kernels.Buffer { return product(m, x, w, bias) },
			func(m *machine, w, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, N*K)
				m.LinearGradW(dw, kernels.Whole(m.f32(dy...), N), kernels.Whole(m.f32(x...), K), alpha, kernels.F32, T)
				return dw
			}},
		{"BiasGrad", N,
			func(m *machine, bias []float32) kernels.Buffer { return product(m, x, w, bias) },
			func(m *machine, bias, dy []float32) kernels.Buffer {
				db := m.zeros(kernels.F32, N)
				m.BiasGrad(db, kernels.Whole(m.f32(dy...), N), T)
				return db
			}},
		{"EmbedGrad", N * K,
			func(m *machine, table []float32) kernels.Buffer {
				y := m.zeros(kernels.F32, T*K)
				m.Embed(y, m.load(kernels.F32, N, K, table), m.i32(3, 0, 3), T)
				return y
			},
			func(m *machine, table, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, N*K)
				m.EmbedGrad(dw, m.f32(dy...), m.i32(3, 0, 3), N, K, T)
				return dw
			}},
	}
}

// normSlopes are the norm and the gate of a block.
func normSlopes() []slope {
	const H, T = 9, 3
	const eps = 0.3
	x, w := given("x", T*H), given("w", H)
	n := kernels.Norm{Eps: eps, Offset: 1}
	norm := func(m *machine, x, w []float32) kernels.Buffer {
		y := m.zeros(kernels.F32, T*H)
		m.RMSNorm(y, m.f32(x...), m.f32(w...), n, H, T)
		return y
	}
	return []slope{
		{"RMSNormGradX", T * H,
			func(m *machine, x []float32) kernels.Buffer { return norm(m, x, w) },
			func(m *machine, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*H)
				m.RMSNormGradX(dx, m.f32(dy...), m.f32(x...), m.f32(w...), n, H, T)
				return dx
			}},
		{"RMSNormGradW", H,
			func(m *machine, w []float32) kernels.Buffer { return norm(m, x, w) },
			func(m *machine, w, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, H)
				m.RMSNormGradW(dw, m.f32(dy...), m.f32(x...), n, H, T)
				return dw
			}},
		{"SwiGLUGrad", T * 2 * H,
			func(m *machine, x []float32) kernels.Buffer {
				y := m.zeros(kernels.F32, T*H)
				m.SwiGLU(y, m.f32(x...), H, T)
				return y
			},
			func(m *machine, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*2*H)
				m.SwiGLUGrad(dx, m.f32(dy...), m.f32(x...), H, T)
				return dx
			}},
		{"GeGLUGrad", T * 2 * H,
			func(m *machine, x []float32) kernels.Buffer {
				y := m.zeros(kernels.F32, T*H)
				m.GeGLU(y, m.f32(x...), H, T)
				return y
			},
			func(m *machine, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*2*H)
				m.GeGLUGrad(dx, m.f32(dy...), m.f32(x...), H, T)
				return dx
			}},
	}
}

// ropeSlopes are those of the norm and rotation of queries and keys.
func ropeSlopes() []slope {
	const T = 3
	const eps = 0.3
	h := kernels.Heads{Q: 2, KV: 1, Dim: 6}
	qkv, w := given("qkv", T*h.Width()), given("w2", 2*h.Dim)
	rope := func(m *machine) kernels.Buffer {
		table := m.zeros(kernels.F32, T*h.Dim)
		m.RopeTable(table, m.i32(0, 5, 900), m.frequencies(1e4, h.Dim), 1.1, h.Dim, T)
		return table
	}
	qkRope := func(m *machine, qkv, w []float32) kernels.Buffer {
		y := m.zeros(kernels.F32, T*h.Width())
		m.QKNormRope(y, m.f32(qkv...), m.f32(w[:h.Dim]...), m.f32(w[h.Dim:]...), rope(m), eps, kernels.Attn{Heads: h}, T)
		return y
	}
	return []slope{
		{"Rope", T * h.Width(),
			func(m *machine, x []float32) kernels.Buffer {
				y := m.zeros(kernels.F32, T*h.Width())
				m.Rope(y, m.f32(x...), rope(m), false, kernels.Attn{Heads: h}, T)
				return y
			},
			func(m *machine, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*h.Width())
				m.Rope(dx, m.f32(dy...), rope(m), true, kernels.Attn{Heads: h}, T)
				return dx
			}},
		{"QKNormRopeGradX", T * h.Width(),
			func(m *machine, qkv []float32) kernels.Buffer { return qkRope(m, qkv, w) },
			func(m *machine, qkv, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, T*h.Width())
				m.QKNormRopeGradX(dx, m.f32(dy...), m.f32(qkv...), m.f32(w[:h.Dim]...), m.f32(w[h.Dim:]...), rope(m),
					eps, h, T)
				return dx
			}},
		{"QKNormRopeGradW", 2 * h.Dim,
			func(m *machine, w []float32) kernels.Buffer { return qkRope(m, qkv, w) },
			func(m *machine, w, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, 2*h.Dim)
				m.QKNormRopeGradW(dw.Slice(0, h.Dim), dw.Slice(h.Dim, 2*h.Dim), m.f32(dy...), m.f32(qkv...), rope(m),
					eps, h, T)
				return dw
			}},
	}
}

// rowSlopes are attention, the head and the loss.
func rowSlopes() (list []slope) {
	h := kernels.Heads{Q: 4, KV: 2, Dim: 6}
	list = append(list, attentionSlope("AttentionGrad", kernels.Attn{Heads: h}),
		attentionSlope("AttentionGrad/bent, in a window", kernels.Attn{Heads: h, Scale: 0.7, Cap: 1.5, Window: 3}))
	for _, l := range []kernels.Logits{{InvTemp: 0.6}, {InvTemp: 0.6, Cap: 2}} {
		list = append(list, headSlopes(l)...)
	}
	for _, kind := range []kernels.LossKind{kernels.ImportanceSampling, kernels.PPO, kernels.CrossEntropy} {
		list = append(list, lossSlope(kind))
	}
	return list
}

func attentionSlope(name string, h kernels.Attn) slope {
	const T = 12 // a sequence of one row, one of six, and two that begin alike
	spans := func(m *machine) kernels.Spans {
		return m.spansOf(tree{[]int{1}, []int{-1}}, tree{[]int{6}, []int{-1}}, tree{[]int{2, 1, 2}, []int{-1, 0, 0}})
	}
	attend := func(m *machine, qkv kernels.Buffer) (out, lse kernels.Buffer) {
		out, lse = m.zeros(kernels.F32, T*h.OutWidth()), m.zeros(kernels.F32, T*h.Q)
		m.Attention(out, lse, qkv, spans(m), h, kernels.F32, T)
		return out, lse
	}
	return slope{name, T * h.Width(),
		func(m *machine, x []float32) kernels.Buffer {
			out, _ := attend(m, m.f32(x...))
			return out
		},
		func(m *machine, x, dy []float32) kernels.Buffer {
			qkv, dx := m.f32(x...), m.zeros(kernels.F32, T*h.Width())
			out, lse := attend(m, qkv)
			m.AttentionGrad(dx, m.f32(dy...), qkv, out, lse, spans(m), h, kernels.F32, T)
			return dx
		}}
}

func headSlopes(l kernels.Logits) []slope {
	const V, H, rows = 11, 5, 3
	hidden, w := given("hidden", rows*H), given("w", V*H)
	head := func(m *machine, hidden, w []float32) kernels.LogProbOut {
		out := kernels.LogProbOut{
			LogP: m.zeros(kernels.F32, rows), Entropy: m.zeros(kernels.F32, rows),
			LSE: m.zeros(kernels.F32, rows), Jacobian: m.zeros(kernels.F32, rows*H),
		}
		m.LogProb(out, m.f32(hidden...), m.load(kernels.F32, V, H, w), m.i32(4, -1, 10), l, rows)
		return out
	}
	return []slope{
		{fmt.Sprintf("LogProbGradX %+v", l), rows * H,
			func(m *machine, x []float32) kernels.Buffer { return head(m, x, w).LogP },
			func(m *machine, x, dy []float32) kernels.Buffer {
				dx := m.zeros(kernels.F32, rows*H)
				m.LogProbGradX(dx, m.f32(dy...), head(m, x, w).Jacobian, H, rows)
				return dx
			}},
		{fmt.Sprintf("LogProbGradW %+v", l), V * H,
			func(m *machine, w []float32) kernels.Buffer { return head(m, hidden, w).LogP },
			func(m *machine, w, dy []float32) kernels.Buffer {
				dw := m.zeros(kernels.F32, V*H)
				m.LogProbGradW(dw, m.f32(dy...), m.f32(hidden...), m.load(kernels.F32, V, H, w), m.i32(4, -1, 10),
					head(m, hidden, w).LSE, l, rows)
				return dw
			}},
	}
}

// lossSlope is the derivative of a loss by the log-probabilities. CISPO has none in this sense: it treats its ratio as a constant.
func lossSlope(kind kernels.LossKind) slope {
	const T = 6
	loss, _ := kernels.ParseLoss(kind.String())
	run := func(m *machine, logp []float32) (dlogp, stats kernels.Buffer) {
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
	near3 := func(x []float32) []float32 { // the slope's numbers, drawn near −3
		logp := make([]float32, T)
		for i := range logp {
			logp[i] = -3 + x[i]/64
		}
		return logp
	}
	return slope{"Loss/" + kind.String(), T,
		func(m *machine, x []float32) kernels.Buffer {
			_, loss := run(m, near3(x))
			return loss
		},
		func(m *machine, x, dy []float32) kernels.Buffer {
			dlogp, _ := run(m, near3(x))
			d := m.read(dlogp)
			for i := range d {
				d[i] *= dy[0] / 64
			}
			return m.f32(d...)
		}}
}
