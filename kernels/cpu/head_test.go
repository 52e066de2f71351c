package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/oracle"
)

// headCase is a problem of the output head, and its solution in float64.
type headCase struct {
	T, V, H int
	h, w    []float32
	targets []int32
	dlogp   []float32
	invTemp float32

	logp, entropy, lse, jacobian, dw []float64
}

// newHeadCase draws a problem; every third row has no target. spread is about the size of the logits.
func newHeadCase(d kernels.DType, T, V, H int, spread float64) *headCase {
	r := rand.New(rand.NewPCG(4, uint64(T*V*H)))
	c := &headCase{T: T, V: V, H: H, h: normal(r, T*H), w: normal(r, V*H), dlogp: normal(r, T), invTemp: 0.7}
	for i := range c.w {
		c.w[i] *= float32(spread / math.Sqrt(float64(H)))
		if d == kernels.BF16 {
			c.w[i] = math.Float32frombits(math.Float32bits(c.w[i]) &^ 0xffff)
		}
	}
	for t := range T {
		c.targets = append(c.targets, int32(r.IntN(V)))
		if t%3 == 1 {
			c.targets[t] = -1
		}
	}
	return c
}

func (c *headCase) solve() {
	c.logp, c.entropy, c.lse = make([]float64, c.T), make([]float64, c.T), make([]float64, c.T)
	c.jacobian, c.dw = make([]float64, c.T*c.H), make([]float64, c.V*c.H)
	logits := make([]float64, c.V)
	for t, target := range c.targets {
		if target < 0 {
			continue
		}
		top := math.Inf(-1)
		for v := range c.V {
			sum := 0.0
			for k := range c.H {
				sum += float64(c.h[t*c.H+k]) * float64(c.w[v*c.H+k])
			}
			logits[v] = sum * float64(c.invTemp)
			top = max(top, logits[v])
		}
		sum := 0.0
		for _, l := range logits {
			sum += math.Exp(l - top)
		}
		c.lse[t] = top + math.Log(sum)
		c.logp[t] = logits[target] - c.lse[t]
		for v, l := range logits {
			p := math.Exp(l - c.lse[t])
			c.entropy[t] -= p * (l - c.lse[t])
			g := -p
			if v == int(target) {
				g++
			}
			g *= float64(c.invTemp)
			for k := range c.H {
				c.jacobian[t*c.H+k] += g * float64(c.w[v*c.H+k])
				c.dw[v*c.H+k] += float64(c.dlogp[t]) * g * float64(c.h[t*c.H+k])
			}
		}
	}
}

// headResult are a backend's results for rows [from, to) of a case.
type headResult struct{ logp, entropy, lse, jacobian, dw []float32 }

func (c *headCase) run(t testing.TB, b kernels.Backend, d kernels.DType, from, to int, gradient bool) headResult {
	m := weights(t, b, d, c.w, c.V, c.H)
	T := to - from
	zeros := func(n int) kernels.Buffer { return upload(t, b, make([]float32, n)) }
	out := kernels.LogProbOut{LogP: zeros(T), Entropy: zeros(T), LSE: zeros(T)}
	if gradient {
		out.Jacobian = zeros(T * c.H)
		b.Upload(out.Jacobian, normal(rand.New(rand.NewPCG(9, 9)), T*c.H)) // must all be overwritten
	}
	h := upload(t, b, c.h[from*c.H:to*c.H])
	targets, err := b.Alloc(kernels.I32, T)
	if err != nil {
		t.Fatal(err)
	}
	b.Upload(targets, c.targets[from:to])
	b.LogProb(out, h, m, targets, kernels.Logits{InvTemp: c.invTemp}, T)
	r := headResult{logp: download(t, b, out.LogP), entropy: download(t, b, out.Entropy), lse: download(t, b, out.LSE)}
	if gradient {
		r.jacobian = download(t, b, out.Jacobian)
		dw := zeros(c.V * c.H)
		b.LogProbGradW(dw, upload(t, b, c.dlogp[from:to]), h, m, targets, out.LSE, kernels.Logits{InvTemp: c.invTemp}, T)
		r.dw = download(t, b, dw)
	}
	return r
}

func TestHeadAgainstFloat64(t *testing.T) {
	type problem struct {
		dtype kernels.DType
		shape [3]int
	}
	solved := map[problem]*headCase{}
	for _, d := range dtypes {
		for _, s := range [][3]int{{1, 5, 1}, {1, 1024, 33}, {17, 5200, 70}, {1100, 1100, 8}} {
			c := newHeadCase(d, s[0], s[1], s[2], 4)
			c.solve()
			solved[problem{d, s}] = c
		}
	}
	for _, name := range Variants() {
		for _, order := range []kernels.Order{kernels.Serial, kernels.Tiles} {
			b := open(t, Options{Threads: 2, Variant: name, Order: order})
			for p, c := range solved {
				t.Run(fmt.Sprint(name, order, p.dtype, p.shape), func(t *testing.T) { c.against(t, b, p.dtype) })
			}
		}
	}
}

// A head that rounds processes several chunks together, and rounds weights and gradients of logits: the relative error of a number of
// bf16 is up to 2^-9, and a gradient is a sum of such numbers of both signs.
func TestARoundingHeadAgainstFloat64(t *testing.T) {
	for _, V := range []int{900, 2048, 5200} {
		c := newHeadCase(kernels.BF16, 17, V, 70, 4)
		copy(c.h, oracle.RoundedToBF16(c.h))
		c.solve()
		for _, name := range Variants() {
			b := open(t, Options{Threads: 2, Variant: name, Order: kernels.Tiles})
			r := c.run(t, b, kernels.BF16Rounding, 0, c.T, true)
			near(t, "LogP", r.logp, c.logp, 1e-6)
			near(t, "Entropy", r.entropy, c.entropy, 1e-6)
			near(t, "LSE", r.lse, c.lse, 1e-6)
			near(t, "Jacobian", r.jacobian, c.jacobian, 0x1p-9)
			near(t, "LogProbGradW", r.dw, c.dw, 0x1p-8)
		}
	}
}

// against compares a backend's results for all rows with those in float64.
func (c *headCase) against(t *testing.T, b kernels.Backend, d kernels.DType) {
	r := c.run(t, b, d, 0, c.T, true)
	near(t, "LogP", r.logp, c.logp, 1e-6)
	near(t, "Entropy", r.entropy, c.entropy, 1e-6)
	near(t, "LSE", r.lse, c.lse, 1e-6)
	near(t, "Jacobian", r.jacobian, c.jacobian, 2e-6)
	near(t, "LogProbGradW", r.dw, c.dw, 2e-6)

	J, dh := upload(t, b, r.jacobian), upload(t, b, make([]float32, c.T*c.H))
	b.LogProbGradX(dh, upload(t, b, c.dlogp), J, c.H, c.T)
	want := make([]float64, c.T*c.H)
	for i := range want {
		want[i] = float64(c.dlogp[i/c.H]) * c.jacobian[i]
	}
	near(t, "LogProbGradX", download(t, b, dh), want, 2e-6)
}

func TestLogProbOfALargeVocabulary(t *testing.T) {
	b := open(t, Options{})
	c := newHeadCase(kernels.BF16, 3, 151936, 64, 8)
	c.solve()
	r := c.run(t, b, kernels.BF16, 0, c.T, false)
	for i := range c.logp {
		if d := math.Abs(float64(r.logp[i]) - c.logp[i]); d > 1e-5 {
			t.Errorf("row %d: log-probability %g is %g from %g", i, r.logp[i], d, c.logp[i])
		}
		if d := math.Abs(float64(r.entropy[i]) - c.entropy[i]); d > 1e-5 {
			t.Errorf("row %d: entropy %g is %g from %g", i, r.entropy[i], d, c.entropy[i])
		}
	}
}

// The bits of a row are the same alone or among others, with or without a gradient, on any number of threads
// and in every variant with fused multiply-adds.
func TestAScoredRowStandsAlone(t *testing.T) {
	const T, V, H = 33, 3100, 150
	c := newHeadCase(kernels.BF16, T, V, H, 6)
	whole := c.run(t, open(t, Options{Threads: 1}), kernels.BF16, 0, T, true)
	compare := func(what string, got headResult, from int) {
		t.Helper()
		same(t, what+": LogP", got.logp, whole.logp[from:])
		same(t, what+": Entropy", got.entropy, whole.entropy[from:])
		same(t, what+": LSE", got.lse, whole.lse[from:])
		if got.jacobian != nil {
			same(t, what+": Jacobian", got.jacobian, whole.jacobian[from*H:])
		}
	}
	b := open(t, Options{Threads: 2})
	for from := range T {
		compare(fmt.Sprint("rows from ", from), c.run(t, b, kernels.BF16, from, T, from%2 == 0), from)
	}
	options := []Options{{Threads: 2}, {Threads: 3}, {Threads: 8}}
	if slices.Contains(Variants(), "avx2") {
		options = append(options, Options{Threads: 2, Variant: "avx2"})
	} else {
		t.Log("no second variant with fused multiply-adds on this machine: not compared")
	}
	for _, o := range options {
		for _, gradient := range []bool{false, true} {
			r := c.run(t, open(t, o), kernels.BF16, 0, T, gradient)
			compare(fmt.Sprint(o), r, 0)
			if gradient {
				same(t, fmt.Sprint(o, ": LogProbGradW"), r.dw, whole.dw)
			}
		}
	}
}

func BenchmarkLogProb(bench *testing.B) {
	const V, H = 151936, 1024
	b := open(bench, Options{})
	r := rand.New(rand.NewPCG(5, 5))
	w := normal(r, 1024*H)
	for len(w) < V*H {
		w = append(w, w[:min(len(w), V*H-len(w))]...)
	}
	m := weights(bench, b, kernels.BF16, w, V, H)
	for _, s := range []struct {
		T        int
		gradient bool
	}{{1, false}, {8, false}, {64, false}, {512, false}, {512, true}} {
		bench.Run(fmt.Sprintf("T=%d/gradient=%v", s.T, s.gradient), func(bench *testing.B) {
			h := upload(bench, b, normal(r, s.T*H))
			targets, _ := b.Alloc(kernels.I32, s.T)
			x := upload(bench, b, make([]float32, 3*s.T))
			out := kernels.LogProbOut{LogP: x.Slice(0, s.T), Entropy: x.Slice(s.T, 2*s.T), LSE: x.Slice(2*s.T, 3*s.T)}
			products := 1.0
			if s.gradient {
				out.Jacobian = upload(bench, b, make([]float32, s.T*H))
				products = 2
			}
			bench.ReportAllocs()
			for bench.Loop() {
				b.LogProb(out, h, m, targets, kernels.Logits{InvTemp: 0.05}, s.T)
			}
			seconds := bench.Elapsed().Seconds() / float64(bench.N)
			bench.ReportMetric(2*products*float64(s.T)*V*H/seconds/1e9, "GFLOP/s")
			bench.ReportMetric(float64(m.Bytes())/seconds/1e9, "GB/s")
		})
	}
}

func TestLogProbAtTheEdges(t *testing.T) {
	b := open(t, Options{Threads: 1})
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		what          string
		w             []float32 // logits: H is 1 and h is 1
		logp, entropy float32
	}{
		{"a vocabulary of one token", []float32{3.25}, 0, 0},
		{"a certain token", []float32{1000, -1000, 0}, 0, 0},
		{"an excluded token", []float32{2, -inf}, 0, 0},
		{"a logit that is no number", []float32{1, nan}, nan, nan},
		{"an infinite logit", []float32{inf, 1}, nan, nan},
	} {
		h := &headCase{T: 1, V: len(c.w), H: 1, h: []float32{1}, w: c.w, targets: []int32{0}, invTemp: 1}
		r := h.run(t, b, kernels.F32, 0, 1, false)
		if !alike(r.logp[0], c.logp) || !alike(r.entropy[0], c.entropy) {
			t.Errorf("%s: log-probability %g, entropy %g; want %g, %g", c.what, r.logp[0], r.entropy[0], c.logp, c.entropy)
		}
	}
}

func alike(a, b float32) bool { return a == b || a != a && b != b }
