package cpu_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// With vectors of 32 bytes weights of four bits are rounded to bf16 by a shortcut. These are weights that it could get wrong: next to the
// middle of two numbers of bf16, where the even one is right, next to powers of two, and zeros. One row, several, and many rows take
// different code paths.
func TestQuantisedWeightsAreRoundedToEven(t *testing.T) {
	const rows, cols, block = 96, 256, 32
	q := kernels.Quantised{Rows: rows, Cols: cols, Block: block, Codes: make([]byte, rows*cols/2),
		Values: [16]float32{-1, 0, 1, 0.5, -2, 0x1.01p0, -0x1.000002p0, 0x1.fffffep-1, 0x1.8p-3, 3, -0.7, 0.3, 0x1.03p0, 5, -7, 9}}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range q.Codes {
		q.Codes[i] = byte(random.Uint32())
	}
	for i := range rows * cols / block {
		near := []uint32{0, 0x8000, 0x18000, 0x7f8000, 0x7fffff, 0x400000, uint32(i) << 16}[i%7]
		bits := (near+uint32(i/7%9)-4)&0x7fffff | uint32(100+i%50)<<23
		if i%31 == 0 {
			bits = 0
		}
		q.Scales = append(q.Scales, math.Float32frombits(bits))
	}
	decoded := make([]float32, rows*cols)
	q.Decode(decoded, 0)
	var rounded []byte
	for _, w := range decoded {
		u := math.Float32bits(w)
		rounded = binary.LittleEndian.AppendUint16(rounded, uint16((u+0x7fff+u>>16&1)>>16))
	}
	x := make([]float32, 20*cols)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	for _, name := range cpu.Variants() {
		b, err := cpu.New(cpu.Options{Threads: 1, Variant: name})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		codes, err := kernels.NewQuantised(b, kernels.BF16, q)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := b.NewMatrix(kernels.BF16, rows, cols)
		if err != nil {
			t.Fatal(err)
		}
		b.Load(plain, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: rounded})
		for _, T := range []int{1, 4, 20} {
			got, want := product(t, b, codes, x[:T*cols], T), product(t, b, plain, x[:T*cols], T)
			if !slices.Equal(got, want) {
				t.Errorf("%s, %d rows: products with four bits a weight differ from those with the rounded weights", name, T)
			}
		}
	}
}

// In tiles a weight counts as zero if its scale, or its product before rounding, is subnormal; in series none does. That holds in every
// variant, and in gradients that are accumulated, which may be subnormal themselves.
func TestQuantisedWeightsThatAreSubnormal(t *testing.T) {
	const n = 64
	x := slices.Repeat([]float32{1e30}, n*n)
	for what, c := range map[string][2]float32{"product": {1 - 0x1p-24, 0x1p-126}, "scale": {4, 0x1.cp-127}} {
		q := kernels.Quantised{Rows: n, Cols: n, Block: n, Codes: make([]byte, n*n/2), Values: [16]float32{c[0]},
			Scales: slices.Repeat([]float32{c[1]}, n)}
		for _, name := range cpu.Variants() {
			for _, order := range []kernels.Order{kernels.Serial, kernels.Tiles} {
				b, err := cpu.New(cpu.Options{Threads: 1, Variant: name, Order: order})
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				w, err := kernels.NewQuantised(b, kernels.BF16Rounding, q)
				if err != nil {
					t.Fatal(err)
				}
				gradient := multiplied(t, b, x, n, n, func(dx, dy kernels.Cols) {
					b.LinearGradX(dx, dy, w, kernels.LinearOpt{Alpha: 1, Accumulate: true}, n)
				})
				for _, y := range []float32{product(t, b, w, x, n)[0], gradient[0]} {
					if (y == 0) != (order == kernels.Tiles) {
						t.Errorf("%s, %v, a subnormal %s: %v", name, order, what, y)
					}
				}
			}
		}
	}
}

func product(t *testing.T, b kernels.Backend, w kernels.Matrix, x []float32, T int) []float32 {
	t.Helper()
	return multiplied(t, b, x, w.Cols(), w.Rows(), func(out, in kernels.Cols) { b.Linear(out, in, w, kernels.LinearOpt{Alpha: 1}, T) })
}

// multiplied is the result of an operation on rows of one width: rows of another width, which begin as zeros.
func multiplied(t *testing.T, b kernels.Backend, x []float32, from, to int, op func(out, in kernels.Cols)) []float32 {
	t.Helper()
	in, err := b.Alloc(kernels.F32, len(x))
	if err != nil {
		t.Fatal(err)
	}
	b.Upload(in, x)
	out, err := b.Alloc(kernels.F32, len(x)/from*to)
	if err != nil {
		t.Fatal(err)
	}
	op(kernels.Whole(out, to), kernels.Whole(in, from))
	y := make([]float32, out.Len())
	if err := b.Download(y, out); err != nil {
		t.Fatal(err)
	}
	return y
}
