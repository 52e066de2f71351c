package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
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

// matrix is a matrix that rounds what it is multiplied with.
func (r rows) matrix(seed uint64, n, k int, compressed bool) kernels.Matrix {
	m := weights(r.t, r.Backend, kernels.BF16Rounding, normal(rand.New(rand.NewPCG(seed, 9)), n*k), n, k)
	if compressed {
		require.NoError(r.t, r.Compress(m))
	}
	return m
}

// identity is the identity matrix, to read rounded rows through a product.
func (r rows) identity(n int) kernels.Matrix {
	one := make([]float32, n*n)
	for i := range n {
		one[i*n+i] = 1
	}
	return weights(r.t, r.Backend, kernels.BF16Rounding, one, n, n)
}

// both makes rows of a width twice: in f32, and rounded, where everything that is not written is NaN.
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

// onRows calls run with each variant, with few rows and many, written through the caches or around them. The short form writes around
// them in the widest variant and, in others, only the most rows; it leaves out 16 rows, a tile with nothing behind it.
func onRows(t *testing.T, run func(r rows)) {
	defer func(usual int) { streamedBytes = usual }(streamedBytes)
	for i, variant := range Variants() {
		b := openBare(t, Options{Threads: 2, Variant: variant, Order: kernels.Tiles})
		for _, T := range []int{1, 33, 70, 16}[:testvariants.Limit(3, 4)] {
			for _, bytes := range []int{2 << 20, 0} {
				if bytes == 0 && i > 0 && T < 70 && !testvariants.Exhaustive {
					break
				}
				streamedBytes = bytes
				run(rows{t, kernels.Checked(b), T})
			}
		}
	}
}

// Operations that write rounded rows write what they write in f32, rounded.
func TestRoundedRowsAreRounded(t *testing.T) {
	onRows(t, func(r rows) {
		h := kernels.Heads{Q: 4, KV: 2, Dim: 24}
		a := kernels.Attn{Heads: h, Scale: 0.3}
		const H = 96
		x, dy, wide := r.numbers(1, r.T*2*H), r.numbers(2, r.T*2*H), r.numbers(3, r.T*h.Width())
		w, rope := r.numbers(4, H), r.numbers(5, r.T*h.Dim)
		norm := kernels.Norm{Eps: 1e-5, Offset: 1}
		for _, op := range []struct {
			name  string
			width int
			scale float32 // of queries
			run   func(out kernels.Buffer)
		}{
			{"RMSNorm", H, 0, func(out kernels.Buffer) { r.RMSNorm(out, x, w, norm, H, r.T) }},
			{"Rope", h.Width(), a.Scale, func(out kernels.Buffer) { r.Rope(out, wide, rope, false, a, r.T) }},
			{"Rope back", h.Width(), 0, func(out kernels.Buffer) { r.Rope(out, wide, rope, true, a, r.T) }},
			{"QKNormRope", h.Width(), a.Scale, func(out kernels.Buffer) { r.QKNormRope(out, wide, w, w, rope, 1e-5, a, r.T) }},
			{"QKNormRopeGradX", h.Width(), 0, func(out kernels.Buffer) { r.QKNormRopeGradX(out, dy, wide, w, w, rope, 1e-5, h, r.T) }},
			{"SwiGLU", H, 0, func(out kernels.Buffer) { r.SwiGLU(out, x, H, r.T) }},
			{"SwiGLUGrad", 2 * H, 0, func(out kernels.Buffer) { r.SwiGLUGrad(out, dy, x, H, r.T) }},
			{"GeGLU", H, 0, func(out kernels.Buffer) { r.GeGLU(out, x, H, r.T) }},
			{"GeGLUGrad", 2 * H, 0, func(out kernels.Buffer) { r.GeGLUGrad(out, dy, x, H, r.T) }},
		} {
			exact, rounded := r.both(op.width, op.run)
			got, numbers := r.alloc(kernels.F32, r.T*op.width), download(t, r.Backend, exact)
			for i := range numbers {
				if op.scale != 0 && i%op.width < h.OutWidth() {
					numbers[i] *= op.scale
				}
			}
			want := upload(t, r.Backend, oracle.RoundedToBF16(numbers))
			r.Linear(kernels.Whole(got, op.width), kernels.Whole(rounded, op.width), r.identity(op.width), kernels.LinearOpt{Alpha: 1}, r.T)
			r.same(op.name, want, got)
		}
	})
}

// Attention to rounded rows has the bits of attention to the same rows in f32, with tiny and huge numbers and NaN among them.
func TestAttentionOfRoundedRows(t *testing.T) {
	onRows(t, func(r rows) {
		for _, a := range []kernels.Attn{
			{Heads: kernels.Heads{Q: 4, KV: 2, Dim: 24}},
			{Heads: kernels.Heads{Q: 2, KV: 1, Dim: 8}, Scale: 0.7, Window: 20},
			{Heads: kernels.Heads{Q: 3, KV: 1, Dim: 96}, Cap: 2},
		} {
			for _, strange := range []bool{false, true} {
				r.attends(a, strange)
			}
		}
	})
}

func (r rows) attends(a kernels.Attn, strange bool) {
	x := normal(rand.New(rand.NewPCG(1, 9)), r.T*a.Width())
	for i := range x {
		switch k := i % a.Width(); {
		case !strange:
		case k < a.OutWidth() && i%3 == 0:
			x[i] *= 0x1p-126 // queries whose products with the scale may be subnormal
		case k >= a.OutWidth() && i%1009 < 3:
			x[i] = []float32{0x1p-140, 3.4e38, float32(math.Inf(1))}[i%1009]
		}
	}
	rope := upload(r.t, r.Backend, slices.Repeat(append(slices.Repeat([]float32{1}, a.Dim/2), make([]float32, a.Dim/2)...), r.T))
	qkv := upload(r.t, r.Backend, x)
	wide, rounded := r.both(a.Width(), func(out kernels.Buffer) { r.Rope(out, qkv, rope, false, a, r.T) })
	starts := r.alloc(kernels.I32, 3)
	r.Upload(starts, []int32{0, int32(r.T / 3), int32(r.T)})
	parents := r.alloc(kernels.I32, 2)
	r.Upload(parents, []int32{-1, 0})
	for _, s := range []kernels.Spans{{Starts: starts, N: 2}, {Starts: starts, Parents: parents, N: 2}} {
		run := func(qkv kernels.Buffer) (all [3]kernels.Buffer) {
			all = [3]kernels.Buffer{r.numbers(2, r.T*a.OutWidth()), r.numbers(3, r.T*a.Q), r.numbers(4, r.T*a.Width())}
			r.Attention(all[0], all[1], qkv, s, a, kernels.BF16, r.T)
			r.AttentionGrad(all[2], r.numbers(5, r.T*a.OutWidth()), qkv, all[0], all[1], s, a, kernels.BF16, r.T)
			return all
		}
		want, got := run(wide), run(rounded)
		for i, name := range []string{"attention", "its logarithms", "its gradient"} {
			r.same(fmt.Sprintf("%s of %+v, strange %v", name, a, strange), want[i], got[i])
		}
	}
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

// Rounded rows are refused by operations that would not round them, and for widths that cannot have them.
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
	attention := func(kv kernels.DType) func() {
		s := kernels.Spans{Starts: r.alloc(kernels.I32, 2), N: 1}
		r.Upload(s.Starts, []int32{0, 2})
		return func() {
			r.Attention(out.Buf, r.alloc(kernels.F32, 4), x, s, kernels.Attn{Heads: kernels.Heads{Q: 2, KV: 1, Dim: 16}}, kv, 2)
		}
	}
	const setQKV = "cpu: rounded rows are for attention in the order of tiles, with keys and values in bf16"
	require.NotPanics(t, attention(kernels.BF16))
	require.PanicsWithValue(t, setQKV, attention(kernels.F32))
	b.SetSums(kernels.Serial)
	require.PanicsWithValue(t, inTiles, linear(kernels.Whole(x, 64), r.matrix(1, 64, 64, false)))
	require.PanicsWithValue(t, setQKV, attention(kernels.BF16))
}
