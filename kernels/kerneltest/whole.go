package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/oracle"
)

// testWhole: products with a matrix of I16Rounding follow its formula, with the same bits for a row alone and among others. All other
// operations treat it as a matrix of bf16.
func testWhole(t *testing.T, backends []*backend) {
	if !kernels.MultipliesWhole(backends[0].Backend) {
		return
	}
	for _, s := range []struct{ rows, cols, block int }{{1, 64, 64}, {7, 128, 64}, {33, 192, 64}, {40, 448, 128}, {96, 512, 64},
		{150, 1088, 64}, {36, 96, 64}, {33, 64, 32}} {
		random := rand.New(rand.NewPCG(uint64(s.rows), uint64(s.cols)))
		q := quantised(random, s.rows, s.cols, s.block, 0.1)
		q.Values[3] = 0.0371 // and no even spacing
		rows := []int{1, 2, 5, 13, 30, 300}
		if emulated {
			rows = []int{1, 2, 30}
		}
		T := rows[len(rows)-1]
		x := make([]float32, T*s.cols)
		for i := range x {
			x[i] = normal(random) * float32(math.Ldexp(1, i/s.cols%9-4))
		}
		want := wholeProducts(&q, x, T)
		if s.cols%64 != 0 || s.block%64 != 0 { // no 64 inputs share a scale: no number is rounded
			decoded := make([]float32, s.rows*s.cols)
			q.Decode(decoded, 0)
			want = products(oracle.RoundedToBF16(decoded), x, s.rows, T)
		}
		for _, m := range backends {
			w, err := kernels.NewQuantised(m.Backend, kernels.I16Rounding, q)
			if err != nil {
				t.Fatal(err)
			}
			var first []float32
			for _, n := range rows {
				what := fmt.Sprintf("%s, %v, %d rows", m.Name(), s, n)
				got := m.linear(w, x[:n*s.cols], n)
				near(t, what, 5e-6, result{{s.rows, want[:n*s.rows]}}, result{{s.rows, got}})
				first = append(first, got[len(first):]...)
				equal(t, what, result{{s.rows, first}}, result{{s.rows, got}})
			}
			bf16, err := kernels.NewQuantised(m.Backend, kernels.BF16, q)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, m.Name()+", all other operations", m.matrixResults(bf16, 5)[1:], m.matrixResults(w, 5)[1:])
		}
		if t.Failed() {
			return
		}
	}
	testWholeInputs(t, backends[0])
}

// testWholeInputs: products that are accumulated; inputs that are zero, negligible, too large, and not finite.
func testWholeInputs(t *testing.T, m *backend) {
	const rows, cols = 40, 192
	q := quantised(rand.New(rand.NewPCG(1, 2)), rows, cols, 64, 0.1)
	w, err := kernels.NewQuantised(m.Backend, kernels.I16Rounding, q)
	if err != nil {
		t.Fatal(err)
	}
	input := func(first, others float32) (x []float32) {
		for i := range cols {
			x = append(x, others)
			if i == 70 {
				x[i] = first
			}
		}
		return x
	}
	for _, n := range []int{1, 3} { // one row has a kernel of its own
		batch := func(x []float32) []float32 { return append(x, make([]float32, (n-1)*cols)...) }
		for _, x := range [][]float32{input(0, 0), input(0x1p-120, 0), input(math.SmallestNonzeroFloat32, 0)} {
			got := m.linear(w, batch(x), n)
			equal(t, fmt.Sprintf("%v among zeros, %d rows", x[70], n), result{{rows, make([]float32, n*rows)}}, result{{rows, got}})
		}
		large := batch(input(1e30, -1e30))
		near(t, fmt.Sprintf("large inputs, %d rows", n), 5e-6, result{{rows, wholeProducts(&q, large, n)}}, result{{rows, m.linear(w, large, n)}})
		for _, odd := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			for i, y := range m.linear(w, batch(input(odd, 1)), n) {
				if i < rows != math.IsNaN(float64(y)) {
					t.Errorf("an input of %v: output %d of %d rows is %v", odd, i, n, y)
				}
			}
		}
		x, before, bias := fixedNormals("x", n*cols), fixedNormals("before", n*rows), fixedNormals("bias", rows)
		out, product := m.f32(before...), wholeProducts(&q, x, n)
		m.Linear(kernels.Whole(out, rows), kernels.Whole(m.f32(x...), cols), w,
			kernels.LinearOpt{Alpha: -0.5, Accumulate: true, Bias: m.f32(bias...)}, n)
		for i := range product {
			product[i] = before[i] + bias[i%rows] - 0.5*product[i]
		}
		near(t, fmt.Sprintf("added to what there is, %d rows", n), 5e-6, result{{rows, product}}, result{{rows, m.read(out)}})
	}
}

// linear is x·wᵀ.
func (m *backend) linear(w kernels.Matrix, x []float32, T int) []float32 {
	out := m.zeros(kernels.F32, T*w.Rows())
	m.Linear(kernels.Whole(out, w.Rows()), kernels.Whole(m.f32(x...), w.Cols()), w, kernels.LinearOpt{Alpha: 1}, T)
	return m.read(out)
}

// products are x·wᵀ in double precision.
func products(w, x []float32, rows, T int) (out []float32) {
	cols := len(w) / rows
	for t := range T {
		for r := range rows {
			var sum float64
			for k := range cols {
				sum += float64(x[t*cols+k]) * float64(w[r*cols+k])
			}
			out = append(out, float32(sum))
		}
	}
	return out
}

// wholeProducts is the formula of I16Rounding in double precision; only the numbers that are rounded to integers are first computed as
// products of floats, as in the formula.
func wholeProducts(q *kernels.Quantised, x []float32, T int) (out []float32) {
	var largestValue float32
	for _, v := range q.Values {
		largestValue = max(largestValue, v, -v)
	}
	u := 2047 / largestValue
	values := make([]float64, len(q.Values))
	for code, v := range q.Values {
		values[code] = math.RoundToEven(float64(v * u))
	}
	for t := range T {
		x := x[t*q.Cols:][:q.Cols]
		whole, p := make([]float64, q.Cols), make([]float32, q.Cols/64)
		for c := range p {
			var largest float32
			for _, a := range x[64*c:][:64] {
				largest = max(largest, a, -a)
			}
			if largest == 0 {
				continue
			}
			p[c] = 16383 / largest
			for i, a := range x[64*c:][:64] {
				whole[64*c+i] = math.RoundToEven(float64(a * p[c]))
			}
		}
		for r := range q.Rows {
			var sum float64
			for c := range p {
				var chunk float64 // exact
				for i := 64 * c; i < 64*c+64; i++ {
					code := q.Codes[(r*q.Cols+i)/2] >> (4 - 4*((r*q.Cols+i)%2)) & 15
					chunk += whole[i] * values[code]
				}
				if chunk != 0 {
					sum += chunk / (float64(p[c]) * float64(u)) * float64(q.Scales[(r*q.Cols+64*c)/q.Block])
				}
			}
			out = append(out, float32(sum))
		}
	}
	return out
}
