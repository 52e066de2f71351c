// Package tiles computes products in the order of tiles in plain Go, and tests backends against that.
package tiles

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Sum is the dot product x·w in the order of tiles, for w of bf16. For each 32 inputs, two chains of fused multiply-adds from
// zero, over the even inputs and over the odd ones, are added up, and then added to the sum so far. With rounds, x is first
// rounded to bf16; otherwise each 32 inputs are added three times, for three numbers of bf16 with the sum x, the smallest first.
func Sum(x, w []float32, rounds bool) float32 {
	pieces := [][]float32{rounded(x)}
	if !rounds {
		pieces = piecesOf(x)
	}
	var sum float32
	for k := 0; k < len(x); k += 32 {
		for _, x := range pieces {
			var even, odd float32
			for i := k; i < min(k+32, len(x)); i += 2 {
				even = multiplyAdd(x[i], w[i], even)
				if i+1 < len(x) {
					odd = multiplyAdd(x[i+1], w[i+1], odd)
				}
			}
			sum = flushed(sum + flushed(even+odd))
		}
	}
	return sum
}

// piecesOf splits each of x into three numbers of bf16, returned with the smallest first: the nearest, the nearest to the rest,
// and what is left then, which is exact unless it is subnormal.
func piecesOf(x []float32) [][]float32 {
	rest := append([]float32(nil), x...)
	pieces := make([][]float32, 3)
	for p := range 3 {
		pieces[2-p] = rounded(rest)
		for i := range rest {
			rest[i] -= pieces[2-p][i]
		}
	}
	return pieces
}

// rounded are the nearest numbers of bf16, ties to even.
func rounded(x []float32) []float32 {
	nearest := make([]float32, len(x))
	for i, x := range x {
		bits := math.Float32bits(x)
		nearest[i] = math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
	}
	return nearest
}

// multiplyAdd is x·w + sum, rounded once. The product of two numbers of bf16 is exact in double precision; so is the sum,
// unless one of the two is too small to count.
func multiplyAdd(x, w, sum float32) float32 {
	return flushed(float32(float64(flushed(sum)) + float64(flushed(x))*float64(flushed(w))))
}

// flushed is x, or zero if x is subnormal.
func flushed(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

// Run tests backends against the order of tiles: products with a matrix of bf16, and gradients to one, have the bits of Sum, whatever the
// sizes and the number of rows, and whether the matrix is compressed or not.
func Run(t *testing.T, backends ...kernels.Backend) {
	for _, c := range products() {
		for _, b := range backends {
			c.test(t, b, fmt.Sprintf("%s: %d rows of %g, %v of %d x %d", b.Name(), c.rows, c.scale, c.dtype, c.n, c.k))
		}
	}
}

// products are computed once for all backends.
var products = sync.OnceValue(func() (all []*product) {
	for _, s := range []struct{ n, k, rows int }{{1, 1, 1}, {33, 7, 2}, {16, 32, 16}, {70, 100, 17}, {150, 64, 9}, {12, 1100, 3},
		{5, 516, 33}, {9, 40, 1030}, {40, 9, 1031}, {80, 9, 1031}} {
		for _, dtype := range []kernels.DType{kernels.BF16, kernels.BF16Rounding} {
			for _, scale := range []float32{1, 0x1p-70} { // of both factors: products are normal, or subnormal and worse
				all = append(all, newProduct(dtype, s.n, s.k, s.rows, scale))
			}
		}
	}
	return all
})

// product is a matrix w [n, k], its factors, and the results.
type product struct {
	dtype      kernels.DType
	n, k, rows int
	scale      float32
	x, dy, w   []float32
	out, dx    []float32
	dw         []float32 // of numbers that are rounded
}

func newProduct(dtype kernels.DType, n, k, rows int, scale float32) *product {
	random := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	scaled := func(count int) []float32 {
		x := make([]float32, count)
		for i := range x {
			x[i] = float32(random.NormFloat64()) * scale
			if i%7 == 0 {
				x[i] *= 0x1p-60 // far from its neighbours; of the smallest, subnormal
			}
		}
		return x
	}
	c := &product{dtype: dtype, n: n, k: k, rows: rows, scale: scale, x: scaled(rows * k), dy: scaled(rows * n), w: scaled(n * k)}
	columns := make([]float32, k*n)
	for i := range c.w {
		c.w[i] = math.Float32frombits(math.Float32bits(c.w[i]) &^ 0xffff)
		columns[i%k*n+i/k] = c.w[i]
	}
	rounds := dtype == kernels.BF16Rounding
	for t := range rows {
		for i := range n {
			c.out = append(c.out, Sum(c.x[t*k:(t+1)*k], c.w[i*k:(i+1)*k], rounds))
		}
		for j := range k {
			c.dx = append(c.dx, Sum(c.dy[t*n:(t+1)*n], columns[j*n:(j+1)*n], rounds))
		}
	}
	for i := range n {
		for j := range k {
			c.dw = append(c.dw, Sum(column(c.dy, i, n), rounded(column(c.x, j, k)), true))
		}
	}
	return c
}

// column is a column of a matrix with the given number of columns.
func column(x []float32, j, columns int) (all []float32) {
	for ; j < len(x); j += columns {
		all = append(all, x[j])
	}
	return all
}

func (c *product) test(t *testing.T, b kernels.Backend, what string) {
	t.Helper()
	buffer := func(n int, x []float32) kernels.Buffer {
		m, err := b.Alloc(kernels.F32, n)
		must(t, err)
		b.Upload(m, append(make([]float32, 0, n), x...)[:n])
		return m
	}
	w, err := b.NewMatrix(c.dtype, c.n, c.k)
	must(t, err)
	var file []byte
	for _, x := range c.w {
		file = binary.LittleEndian.AppendUint16(file, uint16(math.Float32bits(x)>>16))
	}
	b.Load(w, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: file})
	x, dy := kernels.Whole(buffer(c.rows*c.k, c.x), c.k), kernels.Whole(buffer(c.rows*c.n, c.dy), c.n)
	for _, compressed := range []bool{false, true} {
		if compressed {
			must(t, b.Compress(w))
		}
		out, dx := buffer(c.rows*c.n, nil), buffer(c.rows*c.k, nil)
		b.Linear(kernels.Whole(out, c.n), x, w, kernels.LinearOpt{Alpha: 1}, c.rows)
		b.LinearGradX(kernels.Whole(dx, c.k), dy, w, kernels.LinearOpt{Alpha: 1}, c.rows)
		equalBits(t, b, fmt.Sprintf("%s, compressed: %v: Linear", what, compressed), c.out, out)
		equalBits(t, b, fmt.Sprintf("%s, compressed: %v: LinearGradX", what, compressed), c.dx, dx)
	}
	dw := buffer(c.n*c.k, nil)
	b.LinearGradW(dw, dy, x, 1, kernels.BF16, c.rows)
	equalBits(t, b, what+": LinearGradW", c.dw, dw)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equalBits requires the same bits.
func equalBits(t *testing.T, b kernels.Backend, what string, want []float32, buffer kernels.Buffer) {
	t.Helper()
	got := make([]float32, len(want))
	must(t, b.Download(got, buffer))
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			t.Errorf("%s: number %d is %v (%08x), expected %v (%08x)", what, i, got[i], math.Float32bits(got[i]), w, math.Float32bits(w))
			return
		}
	}
}
