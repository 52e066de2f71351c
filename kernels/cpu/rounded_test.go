package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/oracle"
)

// rows are a backend in the order of tiles, and a batch.
type rows struct {
	t *testing.T
	kernels.Backend
	T int
}

func (r rows) alloc(t kernels.DType, n int) kernels.Buffer {
	b, err := r.Alloc(t, n)
	require.NoError(r.t, err)
	return b
}

func (r rows) numbers(seed uint64, n int) kernels.Buffer {
	return upload(r.t, r.Backend, normal(rand.New(rand.NewPCG(seed, 9)), n))
}

// matrix is one that rounds what it is multiplied with.
func (r rows) matrix(seed uint64, n, k int, compressed bool) kernels.Matrix {
	m := weights(r.t, r.Backend, kernels.BF16Rounding, normal(rand.New(rand.NewPCG(seed, 9)), n*k), n, k)
	if compressed {
		require.NoError(r.t, r.Compress(m))
	}
	return m
}

// identity has the numbers of rounded rows come out of a product as they are.
func (r rows) identity(n int) kernels.Matrix {
	one := make([]float32, n*n)
	for i := range n {
		one[i*n+i] = 1
	}
	return weights(r.t, r.Backend, kernels.BF16Rounding, one, n, n)
}

// both makes rows of that width twice: in f32, and rounded, where what is not written is no number.
func (r rows) both(width int, make func(out kernels.Buffer)) (wide, rounded kernels.Buffer) {
	wide = r.alloc(kernels.F32, r.T*width)
	rounded = r.alloc(kernels.BF16, kernels.RoundsRows(r.Backend, kernels.Tiles).RoundedLen(width, r.T))
	for i, bytes := 0, own(rounded).bytes(); i < len(bytes); i++ {
		bytes[i] = 0xff
	}
	make(wide)
	make(rounded)
	return wide, rounded
}

func (r rows) same(what string, want, got kernels.Buffer) {
	r.t.Helper()
	same(r.t, fmt.Sprintf("%s, %d rows", what, r.T), download(r.t, r.Backend, got), download(r.t, r.Backend, want))
}

// onRows calls run with each variant, and few rows and many.
func onRows(t *testing.T, run func(r rows)) {
	for _, variant := range Variants() {
		b := openBare(t, Options{Threads: 2, Variant: variant, Order: kernels.Tiles})
		for _, T := range []int{1, 16, 33, 70} {
			run(rows{t, kernels.Checked(b), T})
		}
	}
}

// What is written as rounded rows is what is written in f32, rounded.
func TestRoundedRowsAreRounded(t *testing.T) {
	onRows(t, func(r rows) {
		h := kernels.Heads{Q: 4, KV: 2, Dim: 24}
		const H = 96
		x, dy, wide := r.numbers(1, r.T*2*H), r.numbers(2, r.T*2*H), r.numbers(3, r.T*h.Width())
		w, rope := r.numbers(4, H), r.numbers(5, r.T*h.Dim)
		norm := kernels.Norm{Eps: 1e-5, Offset: 1}
		for _, op := range []struct {
			name  string
			width int
			run   func(out kernels.Buffer)
		}{
			{"RMSNorm", H, func(out kernels.Buffer) { r.RMSNorm(out, x, w, norm, H, r.T) }},
			{"Rope", h.Width(), func(out kernels.Buffer) { r.Rope(out, wide, rope, true, h, r.T) }},
			{"QKNormRopeGradX", h.Width(), func(out kernels.Buffer) { r.QKNormRopeGradX(out, dy, wide, w, w, rope, 1e-5, h, r.T) }},
			{"SwiGLU", H, func(out kernels.Buffer) { r.SwiGLU(out, x, H, r.T) }},
			{"SwiGLUGrad", 2 * H, func(out kernels.Buffer) { r.SwiGLUGrad(out, dy, x, H, r.T) }},
			{"GeGLU", H, func(out kernels.Buffer) { r.GeGLU(out, x, H, r.T) }},
			{"GeGLUGrad", 2 * H, func(out kernels.Buffer) { r.GeGLUGrad(out, dy, x, H, r.T) }},
		} {
			exact, rounded := r.both(op.width, op.run)
			got := r.alloc(kernels.F32, r.T*op.width)
			want := upload(t, r.Backend, oracle.RoundedToBF16(download(t, r.Backend, exact)))
			r.Linear(kernels.Whole(got, op.width), kernels.Whole(rounded, op.width), r.identity(op.width), kernels.LinearOpt{Alpha: 1}, r.T)
			r.same(op.name, want, got)
		}
	})
}

// Products with rounded rows have the bits of products with the rows in f32, whose factors they round.
func TestProductsOfRoundedRows(t *testing.T) {
	onRows(t, func(r rows) {
		for _, compressed := range []bool{false, true} {
			for _, s := range []struct{ n, k int }{{64, 96}, {160, 1088}, {576, 32}} {
				r.products(s.n, s.k, compressed)
			}
		}
	})
}

func (r rows) products(n, k int, compressed bool) {
	w, what := r.matrix(1, n, k, compressed), fmt.Sprintf("[%d, %d]", n, k)
	narrow := func(width int, seed uint64) (wide, rounded kernels.Cols) {
		x, scale := r.numbers(seed, r.T*width), r.numbers(seed+1, width)
		a, b := r.both(width, func(out kernels.Buffer) { r.RMSNorm(out, x, scale, kernels.Norm{Eps: 1e-6}, width, r.T) })
		return kernels.Whole(a, width), kernels.Whole(b, width)
	}
	x, x16 := narrow(k, 10)
	dy, dy16 := narrow(n, 20)
	of := func(width int, op func(out kernels.Cols)) kernels.Buffer {
		out := r.numbers(30, r.T*width)
		op(kernels.Whole(out, width))
		return out
	}
	for _, o := range []kernels.LinearOpt{{Alpha: 1}, {Alpha: 0.7, Accumulate: true, Bias: r.numbers(31, n)}} {
		r.same("Linear "+what, of(n, func(y kernels.Cols) { r.Linear(y, x, w, o, r.T) }),
			of(n, func(y kernels.Cols) { r.Linear(y, x16, w, o, r.T) }))
		o.Bias = nil
		r.same("LinearGradX "+what, of(k, func(y kernels.Cols) { r.LinearGradX(y, dy, w, o, r.T) }),
			of(k, func(y kernels.Cols) { r.LinearGradX(y, dy16, w, o, r.T) }))
	}
	part := func(c kernels.Cols) kernels.Cols {
		return kernels.Cols{Buf: c.Buf, Stride: c.Stride, From: 32, N: c.N - 32}
	}
	for _, low := range []int{16, 3, 40} {
		z := kernels.Whole(r.numbers(40, r.T*low), low)
		gradient := func(left, right kernels.Cols) kernels.Buffer {
			dw := r.numbers(41, left.N*right.N)
			r.LinearGradW(dw, left, right, 0.3, kernels.BF16, r.T)
			return dw
		}
		r.same("LinearGradW of x "+what, gradient(z, x), gradient(z, x16))
		r.same("LinearGradW of dy "+what, gradient(dy, z), gradient(dy16, z))
		if n > 32 {
			r.same("LinearGradW of a part of dy "+what, gradient(part(dy), z), gradient(part(dy16), z))
		}
	}
	r.adapted(w, x, x16, dy, dy16)
}

// adapted compares a linear with its adapter.
func (r rows) adapted(w kernels.Matrix, x, x16, dy, dy16 kernels.Cols) {
	n, k := w.Rows(), w.Cols()
	for _, rank := range []int{8, 20} {
		l := &kernels.LowRank{Scale: 1.5, Windows: []kernels.Window{{From: 0, N: 32}, {From: 32, N: n - 32}}, A: r.matrix(50, 2*rank, k, false)}
		l.B = []kernels.Matrix{r.matrix(51, 32, rank, false), r.matrix(52, n-32, rank, false)}
		run := func(x, dy kernels.Cols) (all [4]kernels.Buffer) {
			all = [4]kernels.Buffer{r.numbers(53, r.T*n), r.numbers(54, r.T*2*rank), r.numbers(55, r.T*k), r.numbers(56, r.T*2*rank)}
			z, dz := kernels.Whole(all[1], 2*rank), kernels.Whole(all[3], 2*rank)
			kernels.LinearLowRank(r.Backend, kernels.Whole(all[0], n), z, x, w, nil, l, r.T)
			kernels.LinearLowRankGradX(r.Backend, kernels.Whole(all[2], k), dz, dy, w, l, r.T)
			return all
		}
		want, got := run(x, dy), run(x16, dy16)
		for i, name := range []string{"the output", "z", "the gradient to x", "the gradient to z"} {
			r.same(fmt.Sprintf("%s of [%d, %d] with rank %d", name, n, k, rank), want[i], got[i])
		}
	}
}

// Rounded rows are refused where nothing rounds them, and where they do not exist.
func TestRoundedRowsAreRefused(t *testing.T) {
	b := openBare(t, Options{Threads: 1, Order: kernels.Tiles})
	r := rows{t, kernels.Checked(b), 2}
	x := r.alloc(kernels.BF16, b.RoundedLen(64, 2))
	out := kernels.Whole(r.alloc(kernels.F32, 2*64), 64)
	exact, err := r.NewMatrix(kernels.F32, 64, 64)
	require.NoError(t, err)
	linear := func(x kernels.Cols, w kernels.Matrix) func() {
		return func() { r.Linear(out, x, w, kernels.LinearOpt{Alpha: 1}, 2) }
	}
	const inTiles = "cpu: rounded rows are for products in the order of tiles that round what they multiply, one factor of two"
	require.PanicsWithValue(t, inTiles, linear(kernels.Whole(x, 64), exact))
	require.PanicsWithValue(t, inTiles, func() {
		r.LinearGradW(r.alloc(kernels.F32, 64*64), kernels.Whole(x, 64), kernels.Whole(x, 64), 1, kernels.BF16, 2)
	})
	require.PanicsWithValue(t, "kernels: Linear: x is columns [16, 48) of rounded rows, expected whole 32s",
		linear(kernels.Cols{Buf: x, Stride: 64, From: 16, N: 32}, r.matrix(1, 64, 32, false)))
	require.PanicsWithValue(t, "kernels: Linear: x is bf16 [3072], expected f32 [96]",
		linear(kernels.Whole(x, 48), r.matrix(1, 64, 48, false)))
	require.PanicsWithValue(t, "kernels: SwiGLU: out is bf16 [3072], expected bf16 [4096]",
		func() { r.SwiGLU(x, r.alloc(kernels.F32, 2*2*96), 96, 2) })
	b.SetSums(kernels.Serial)
	require.PanicsWithValue(t, inTiles, linear(kernels.Whole(x, 64), r.matrix(1, 64, 64, false)))
}
