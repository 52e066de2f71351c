package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

func open(t testing.TB, o Options) kernels.Backend {
	t.Helper()
	return kernels.Checked(openBare(t, o))
}

// openBare opens a backend without kernels.Checked around it.
func openBare(t testing.TB, o Options) *backend {
	t.Helper()
	b, err := newBackend(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func upload(t testing.TB, b kernels.Backend, x []float32) kernels.Buffer {
	t.Helper()
	buf, err := b.Alloc(kernels.F32, len(x))
	if err != nil {
		t.Fatal(err)
	}
	b.Upload(buf, x)
	return buf
}

func download(t testing.TB, b kernels.Backend, buf kernels.Buffer) []float32 {
	t.Helper()
	x := make([]float32, buf.Len())
	if err := b.Download(x, buf); err != nil {
		t.Fatal(err)
	}
	return x
}

// weights rounds w to the dtype in place and returns the matrix.
func weights(t testing.TB, b kernels.Backend, d kernels.DType, w []float32, rows, cols int) kernels.Matrix {
	t.Helper()
	m, err := b.NewMatrix(d, rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	if d == kernels.F32 {
		b.Pack(m, 0, upload(t, b, w))
		return m
	}
	raw := make([]byte, 2*len(w))
	for i, x := range w {
		bits := math.Float32bits(x) &^ 0xffff
		w[i] = math.Float32frombits(bits)
		binary.LittleEndian.PutUint16(raw[2*i:], uint16(bits>>16))
	}
	b.Load(m, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: raw})
	return m
}

// near fails unless got is within tolerance of want, relative to the largest number of want.
func near(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	scale := 0.0
	for _, x := range want {
		scale = max(scale, math.Abs(x))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tolerance*scale) {
			t.Fatalf("%s: element %d is %g, want %g (scale %g)", what, i, got[i], want[i], scale)
		}
	}
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %g, want the bits of %g", what, i, got[i], want[i])
		}
	}
}

var dtypes = []kernels.DType{kernels.BF16, kernels.F32}

func TestLinearAgainstFloat64(t *testing.T) {
	for _, name := range Variants() {
		b := open(t, Options{Threads: 2, Variant: name})
		for _, d := range dtypes {
			for _, s := range [][3]int{
				{1, 1, 1}, {1, 33, 300}, {2, 64, 17}, {7, 31, 257}, {15, 95, 64}, {29, 40, 513}, {40, 130, 16}, {33, 16, 100},
			} {
				t.Run(fmt.Sprint(name, d, s), func(t *testing.T) { linearCase(t, b, d, s[0], s[1], s[2]) })
			}
		}
	}
}

// linearCase checks the four operations with windows into wider rows, accumulating.
func linearCase(t *testing.T, b kernels.Backend, d kernels.DType, T, N, K int) {
	r := rand.New(rand.NewPCG(1, uint64(T*N*K)))
	w, bias := normal(r, N*K), normal(r, N)
	m := weights(t, b, d, w, N, K)
	xs, ys := K+5, N+3
	x, y := normal(r, T*xs), normal(r, T*ys)
	X := kernels.Cols{Buf: upload(t, b, x), Stride: xs, From: 4, N: K}
	Y := kernels.Cols{Buf: upload(t, b, y), Stride: ys, From: 2, N: N}
	at := func(t, k int) float64 { return float64(x[t*xs+4+k]) }
	dy := func(t, n int) float64 { return float64(y[t*ys+2+n]) }

	forward := make([]float64, len(y))
	for i := range y {
		forward[i] = float64(y[i])
	}
	dx := make([]float64, len(x))
	for i := range x {
		dx[i] = float64(x[i])
	}
	dw, db := make([]float64, N*K), make([]float64, N)
	for t := range T {
		for n := range N {
			sum := 0.0
			for k := range K {
				sum += at(t, k) * float64(w[n*K+k])
				dx[t*xs+4+k] += 0.5 * dy(t, n) * float64(w[n*K+k])
				dw[n*K+k] += 0.25 * dy(t, n) * at(t, k)
			}
			forward[t*ys+2+n] += float64(bias[n]) + 2*sum
			db[n] += dy(t, n)
		}
	}
	for i := range dw {
		dw[i]++
	}

	out := Y
	out.Buf = upload(t, b, y)
	b.Linear(out, X, m, kernels.LinearOpt{Alpha: 2, Accumulate: true, Bias: upload(t, b, bias)}, T)
	near(t, "Linear", download(t, b, out.Buf), forward, 2e-6)

	grad := X
	grad.Buf = upload(t, b, x)
	b.LinearGradX(grad, Y, m, kernels.LinearOpt{Alpha: 0.5, Accumulate: true}, T)
	near(t, "LinearGradX", download(t, b, grad.Buf), dx, 2e-6)

	ones := make([]float32, N*K)
	for i := range ones {
		ones[i] = 1
	}
	gw := upload(t, b, ones)
	b.LinearGradW(gw, Y, X, 0.25, kernels.F32, T)
	near(t, "LinearGradW", download(t, b, gw), dw, 2e-6)

	gb := upload(t, b, make([]float32, N))
	b.BiasGrad(gb, Y, T)
	near(t, "BiasGrad", download(t, b, gb), db, 2e-6)
}

// results runs the three products of one problem on a backend.
func results(t *testing.T, o Options, d kernels.DType, x, y, w []float32, T, N, K int) (out, dx, dw []float32) {
	b := open(t, o)
	m := weights(t, b, d, w, N, K)
	X, Y := upload(t, b, x), upload(t, b, y)
	bo, bx, bw := upload(t, b, make([]float32, T*N)), upload(t, b, make([]float32, T*K)), upload(t, b, make([]float32, N*K))
	b.Linear(kernels.Whole(bo, N), kernels.Whole(X, K), m, kernels.LinearOpt{Alpha: 1}, T)
	b.LinearGradX(kernels.Whole(bx, K), kernels.Whole(Y, N), m, kernels.LinearOpt{Alpha: 1}, T)
	b.LinearGradW(bw, kernels.Whole(Y, N), kernels.Whole(X, K), 1, kernels.F32, T)
	return download(t, b, bo), download(t, b, bx), download(t, b, bw)
}

func TestARowStandsAlone(t *testing.T) {
	const N, K, T = 70, 530, 40
	for _, d := range dtypes {
		r := rand.New(rand.NewPCG(2, 2))
		x, y, w := normal(r, T*K), normal(r, T*N), normal(r, N*K)
		out, dx, dw := results(t, Options{Threads: 1}, d, x, y, w, T, N, K)

		for n := 1; n <= T; n++ { // the last n rows, for every n
			o, g, _ := results(t, Options{Threads: 2}, d, x[(T-n)*K:], y[(T-n)*N:], w, n, N, K)
			same(t, fmt.Sprint("Linear of the last rows ", n), o, out[(T-n)*N:])
			same(t, fmt.Sprint("LinearGradX of the last rows ", n), g, dx[(T-n)*K:])
		}
		for _, o := range []Options{{Threads: 2}, {Threads: 3}, {Threads: 8}, {Threads: 2, Variant: "avx2"}} {
			if o.Variant != "" && !slices.Contains(Variants(), o.Variant) {
				t.Logf("no second variant with fused multiply-adds here: %v not compared", o)
				continue
			}
			o2, x2, w2 := results(t, o, d, x, y, w, T, N, K)
			same(t, fmt.Sprint("Linear ", o), o2, out)
			same(t, fmt.Sprint("LinearGradX ", o), x2, dx)
			same(t, fmt.Sprint("LinearGradW ", o), w2, dw)
		}
	}
}

func BenchmarkLinear(bench *testing.B) {
	for _, s := range []struct {
		op      string
		T, N, K int
	}{
		{"forward", 2048, 2048, 2048}, {"forward", 512, 3072, 1024}, {"gradx", 512, 3072, 1024}, {"gradw", 512, 3072, 1024},
		{"forward", 512, 1024, 3072}, {"gradx", 512, 1024, 3072},
		{"forward", 512, 16, 1024}, {"forward", 512, 1024, 16}, {"gradx", 512, 3072, 16},
		{"gradw", 512, 16, 1024}, {"gradw", 512, 1024, 16},
		{"forward", 1, 65536, 2048}, {"forward", 2, 65536, 2048}, {"forward", 4, 65536, 2048}, {"forward", 8, 65536, 2048},
		{"forward", 32, 65536, 2048}, {"forward", 1, 3072, 1024},
	} {
		bench.Run(fmt.Sprintf("%s/T=%d/N=%d/K=%d", s.op, s.T, s.N, s.K), func(bench *testing.B) {
			b := openBare(bench, Options{})
			r := rand.New(rand.NewPCG(3, 3))
			d := kernels.BF16
			if s.N == 16 || s.K == 16 {
				d = kernels.F32
			}
			m := weights(bench, b, d, normal(r, s.N*s.K), s.N, s.K)
			x, y := upload(bench, b, normal(r, s.T*s.K)), upload(bench, b, normal(r, s.T*s.N))
			var dw kernels.Buffer
			if s.op == "gradw" {
				dw = upload(bench, b, make([]float32, s.N*s.K))
			}
			X, Y := kernels.Whole(x, s.K), kernels.Whole(y, s.N)
			peak := b.measureFMA(b.ops.peak_fma)
			bench.ReportAllocs()
			for bench.Loop() {
				switch s.op {
				case "forward":
					b.Linear(Y, X, m, kernels.LinearOpt{Alpha: 1}, s.T)
				case "gradx":
					b.LinearGradX(X, Y, m, kernels.LinearOpt{Alpha: 1}, s.T)
				case "gradw":
					b.LinearGradW(dw, Y, X, 1, kernels.F32, s.T)
				}
			}
			seconds := bench.Elapsed().Seconds() / float64(bench.N)
			peak = max(peak, b.measureFMA(b.ops.peak_fma))
			flops := 2 * float64(s.T) * float64(s.N) * float64(s.K) / seconds
			bench.ReportMetric(flops/1e9, "GFLOP/s")
			bench.ReportMetric(100*flops/peak, "%FMA")
			bench.ReportMetric(float64(m.Bytes())/seconds/1e9, "GB/s")
		})
	}
}

func BenchmarkPeak(bench *testing.B) {
	b := openBare(bench, Options{})
	for bench.Loop() {
		peak := b.Peak()
		bench.ReportMetric(peak.Flops/1e9, "GFLOP/s")
		bench.ReportMetric(peak.Products/1e9, "GFLOP/s-bf16")
		bench.ReportMetric(peak.Bytes/1e9, "GB/s")
	}
}
