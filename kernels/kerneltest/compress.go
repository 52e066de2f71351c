package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// testCompress: compression keeps all numbers, and every operation gives the same bits with the compressed matrix, whether its
// numbers have one magnitude or many, outliers, or are zero.
func testCompress(t *testing.T, m *backend) {
	probe := m.load(kernels.BF16, 64, 64, weightsOf(64, 64)["normal"])
	before := probe.Bytes()
	if err := m.Compress(probe); err != nil {
		t.Fatal(err)
	}
	if probe.Bytes() == before {
		t.Skip("this backend keeps matrices as they are")
	}
	for _, s := range []struct{ rows, cols int }{{1, 1}, {7, 33}, {33, 8}, {100, 72}, {70, 400}, {1100, 36}, {40, 1160}} {
		for name, weights := range weightsOf(s.rows, s.cols) {
			for _, dtype := range []kernels.DType{kernels.BF16, kernels.BF16Rounding} {
				plain, compressed := m.load(dtype, s.rows, s.cols, weights), m.load(dtype, s.rows, s.cols, weights)
				if err := m.Compress(compressed); err != nil {
					t.Fatal(err)
				}
				if err := m.Compress(compressed); err != nil {
					t.Fatalf("twice: %v", err)
				}
				what := fmt.Sprintf("%d × %d %v, %s", s.rows, s.cols, dtype, name)
				rows := []int{1, 5, 9, 30, 140}
				if emulated {
					rows = []int{1, 9, 30}
				}
				for _, T := range rows {
					equal(t, fmt.Sprintf("%s, %d rows", what, T), m.matrixResults(plain, T), m.matrixResults(compressed, T))
					if t.Failed() {
						return
					}
				}
			}
		}
	}
}

// weightsOf are weights of several distributions, before truncation to bf16.
func weightsOf(rows, cols int) map[string][]float32 {
	random := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
	draw := func(f func() float32) []float32 {
		w := make([]float32, rows*cols)
		for i := range w {
			w[i] = f()
		}
		return w
	}
	normal := func() float32 { return 0.02 * float32(random.NormFloat64()) }
	return map[string][]float32{
		"normal": draw(normal),
		"some tiny, some large": draw(func() float32 {
			switch random.IntN(4000) { // few enough outliers for patches
			case 0:
				return normal() * 0x1p-40
			case 1:
				return normal() * 0x1p20
			case 2:
				return 0
			}
			return normal()
		}),
		"of all sizes": draw(func() float32 { return float32(math.Ldexp(random.NormFloat64(), random.IntN(80)-60)) }),
		"zeros":        draw(func() float32 { return 0 }),
	}
}

// matrixResults are the results of all operations that read a matrix, for T rows.
func (m *backend) matrixResults(w kernels.Matrix, T int) (all result) {
	N, K := w.Rows(), w.Cols()
	x, dy, dlogp := m.f32(fixedNormals("x", T*K)...), m.f32(fixedNormals("dy", T*N)...), m.f32(fixedNormals("dlogp", T)...)
	ids := make([]int32, T)
	for i := range ids {
		ids[i] = int32(i * 7 % N)
	}
	targets := m.i32(ids...)
	note := func(b kernels.Buffer, width int) { all = append(all, output{width, m.read(b)}) }

	y, dx, rows, values := m.zeros(kernels.F32, T*N), m.zeros(kernels.F32, T*K), m.zeros(kernels.F32, T*K), m.zeros(kernels.F32, N*K)
	m.Linear(kernels.Whole(y, N), kernels.Whole(x, K), w, kernels.LinearOpt{Alpha: 0.7}, T)
	note(y, N)
	m.LinearGradX(kernels.Whole(dx, K), kernels.Whole(dy, N), w, kernels.LinearOpt{Alpha: 1}, T)
	note(dx, K)
	m.Embed(rows, w, targets, T)
	note(rows, K)
	m.Unpack(values, w)
	note(values, K)

	out := kernels.LogProbOut{LogP: m.zeros(kernels.F32, T), Entropy: m.zeros(kernels.F32, T), LSE: m.zeros(kernels.F32, T)}
	m.LogProb(out, x, w, targets, kernels.Logits{InvTemp: 0.5}, T)
	note(out.LogP, 1)
	out.Jacobian = m.zeros(kernels.F32, T*K)
	m.LogProb(out, x, w, targets, kernels.Logits{InvTemp: 0.5}, T)
	note(out.Jacobian, K)
	note(out.Entropy, 1)
	dw := m.zeros(kernels.F32, N*K)
	m.LogProbGradW(dw, dlogp, x, w, targets, out.LSE, kernels.Logits{InvTemp: 0.5}, T)
	note(dw, K)
	return all
}
