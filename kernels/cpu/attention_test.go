package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// attentionOps are attention and its gradient over n sequences of equal length, with the flops of the
// causal half.
func attentionOps(t testing.TB, m kernels.Backend, h kernels.Heads, n, rows int) (forward, gradient func(), flops float64) {
	T := n * rows
	starts := make([]int32, n+1)
	for i := range starts {
		starts[i] = int32(i * rows)
	}
	at, err := m.Alloc(kernels.I32, n+1)
	if err != nil {
		t.Fatal(err)
	}
	m.Upload(at, starts)
	s := kernels.Spans{Starts: at, N: n}
	qkv, dqkv := random(t, m, T*h.Width()), random(t, m, T*h.Width())
	out, dout, lse := random(t, m, T*h.OutWidth()), random(t, m, T*h.OutWidth()), random(t, m, T*h.Q)
	return func() { m.Attention(out, lse, qkv, s, kernels.Attn{Heads: h}, kernels.F32, T) },
		func() { m.AttentionGrad(dqkv, dout, qkv, out, lse, s, kernels.Attn{Heads: h}, kernels.F32, T) },
		4 * float64(rows) * float64(rows+1) / 2 * float64(n*h.OutWidth())
}

// Attention over keys and values in bf16 has the bits of attention over float32 with numbers that were rounded before: rounding
// changes the numbers, not the order of sums.
func TestRoundedAttentionIsAttentionOfRoundedNumbers(t *testing.T) {
	const T = 75
	h := kernels.Heads{Q: 4, KV: 2, Dim: 40}
	for _, name := range Variants() {
		m := open(t, Options{Threads: 2, Variant: name})
		starts, err := m.Alloc(kernels.I32, 3)
		if err != nil {
			t.Fatal(err)
		}
		m.Upload(starts, []int32{0, 5, T})
		s := kernels.Spans{Starts: starts, N: 2}
		x := normal(rand.New(rand.NewPCG(3, 4)), T*h.Width())
		dout := random(t, m, T*h.OutWidth())
		run := func(kv kernels.DType) (all []float32) {
			qkv := upload(t, m, x)
			out, lse, dqkv := random(t, m, T*h.OutWidth()), random(t, m, T*h.Q), random(t, m, T*h.Width())
			m.Attention(out, lse, qkv, s, kernels.Attn{Heads: h}, kv, T)
			m.AttentionGrad(dqkv, dout, qkv, out, lse, s, kernels.Attn{Heads: h}, kv, T)
			return slices.Concat(download(t, m, out), download(t, m, lse), download(t, m, dqkv))
		}
		exact, got := run(kernels.F32), run(kernels.BF16)
		for t := range T {
			cached := x[t*h.Width()+h.OutWidth() : (t+1)*h.Width()]
			for i, v := range cached {
				bits := math.Float32bits(v)
				cached[i] = math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
			}
		}
		if want := run(kernels.F32); !slices.Equal(want, got) || slices.Equal(exact, got) {
			t.Errorf("%s: attention of rounded numbers is not rounded attention", name)
		}
	}
}

// Queries and gradients of results round to the same bf16 in every variant, also near the least normal number: a query that is subnormal
// after scaling is 0, a gradient just below that number is rounded up to it. Keys and values are large enough to make this visible.
func TestAttentionOfTinyNumbers(t *testing.T) {
	const T = 75
	h := kernels.Heads{Q: 4, KV: 2, Dim: 96}
	random := rand.New(rand.NewPCG(1, 5))
	around := func(least, most float64) float32 { // a multiple of the least normal number
		return float32(math.Ldexp((least+(most-least)*random.Float64())*float64(1-2*random.IntN(2)), -126))
	}
	x, y := normal(random, T*h.Width()), make([]float32, T*h.OutWidth())
	for i := range x {
		x[i] *= 0x1p120
		if i%h.Width() < h.OutWidth() {
			x[i] = around(1, 20)
		}
	}
	for i := range y {
		y[i] = around(0.99, 1.005)
	}
	var want []float32
	for _, name := range Variants() {
		if name == "portable" && runtime.GOARCH == "amd64" {
			continue // it has no fused multiply-adds
		}
		m := open(t, Options{Threads: 2, Variant: name, Order: kernels.Tiles})
		starts, err := m.Alloc(kernels.I32, 3)
		if err != nil {
			t.Fatal(err)
		}
		m.Upload(starts, []int32{0, 5, T})
		s := kernels.Spans{Starts: starts, N: 2}
		qkv, dout, out, lse := upload(t, m, x), upload(t, m, y), upload(t, m, make([]float32, len(y))), upload(t, m, make([]float32, T*h.Q))
		m.Attention(out, lse, qkv, s, kernels.Attn{Heads: h}, kernels.BF16, T)
		dqkv := upload(t, m, make([]float32, len(x)))
		m.AttentionGrad(dqkv, dout, qkv, out, lse, s, kernels.Attn{Heads: h}, kernels.BF16, T)
		got := slices.Concat(download(t, m, out), download(t, m, lse), download(t, m, dqkv))
		if want == nil {
			want = got
		}
		same(t, name, got, want)
	}
	if slices.ContainsFunc(want, func(v float32) bool { return v-v != 0 }) {
		t.Error("numbers are so large that nothing is compared")
	}
}

// The gradient to a query does not depend on later rows of its block, even if their products with the gradient of an output are infinite,
// or NaN.
func TestAGradientIsNotOfLaterRows(t *testing.T) {
	for _, name := range Variants() {
		for _, order := range []kernels.Order{kernels.Serial, kernels.Tiles} {
			m := open(t, Options{Threads: 1, Variant: name, Order: order})
			for _, kv := range []kernels.DType{kernels.F32, kernels.BF16} {
				for _, dim := range []int{8, 48} {
					h := kernels.Heads{Q: 2, KV: 1, Dim: dim}
					want := earlierGradients(t, m, h, kv, -1, 1)
					for _, number := range []float64{3e38, math.MaxFloat32, math.Inf(1), math.NaN()} {
						for what, at := range map[string]int{"value": -1, "key": -1 - dim} {
							if !slices.Equal(want, earlierGradients(t, m, h, kv, at, float32(number))) {
								t.Errorf("%s, %v, %v, heads of %d: rows before a %s of %g have other gradients of queries", name, order, kv, dim,
									what, number)
							}
						}
					}
				}
			}
		}
	}
}

// earlierGradients are the gradients of the queries of all rows but the last, which has a given number at an index from its end.
func earlierGradients(t *testing.T, m kernels.Backend, h kernels.Heads, kv kernels.DType, at int, number float32) (all []float32) {
	const T = 40
	starts, err := m.Alloc(kernels.I32, 2)
	if err != nil {
		t.Fatal(err)
	}
	m.Upload(starts, []int32{0, T})
	x := normal(rand.New(rand.NewPCG(3, 4)), T*h.Width())
	x[len(x)+at] = number
	qkv, dout := upload(t, m, x), upload(t, m, slices.Repeat([]float32{4}, T*h.OutWidth()))
	out, lse, dqkv := random(t, m, T*h.OutWidth()), random(t, m, T*h.Q), random(t, m, T*h.Width())
	s := kernels.Spans{Starts: starts, N: 1}
	m.Attention(out, lse, qkv, s, kernels.Attn{Heads: h}, kv, T)
	if last := download(t, m, out)[(T-1)*h.OutWidth():]; at == -1 && number-number != 0 {
		if slices.ContainsFunc(last, func(x float32) bool { return x == x }) {
			t.Errorf("%v, heads of %d: a row that reads a value of %g has numbers", kv, h.Dim, number)
		}
	}
	m.AttentionGrad(dqkv, dout, qkv, out, lse, s, kernels.Attn{Heads: h}, kv, T)
	rows := download(t, m, dqkv)
	for row := range T - 1 {
		all = append(all, rows[row*h.Width():][:h.OutWidth()]...)
	}
	return all
}

// The starts and parents of spans are checked before C reads rows at them.
func TestSpansThatCannotBe(t *testing.T) {
	const T = 9
	h := kernels.Heads{Q: 2, KV: 1, Dim: 8}
	m := open(t, Options{Threads: 1})
	ints := func(x []int32) kernels.Buffer {
		b, err := m.Alloc(kernels.I32, len(x))
		if err != nil {
			t.Fatal(err)
		}
		m.Upload(b, x)
		return b
	}
	qkv, out, lse := random(t, m, T*h.Width()), random(t, m, T*h.OutWidth()), random(t, m, T*h.Q)
	for _, c := range []struct {
		starts, parents []int32
		words           string
	}{
		{[]int32{0, 5, 8}, []int32{-1, 0}, "sequences are rows [0, 8), expected [0, 9)"},
		{[]int32{0, 9, 5, 9}, []int32{-1, -1, -1}, "span 1 is rows [9, 5)"},
		{[]int32{0, 5, 9}, []int32{-1, 1}, "span 1 goes on from 1, expected the one before it, what that one goes on from, or -1"},
		{[]int32{0, 5, 9}, []int32{0, -1}, "span 0 goes on from 0, expected the one before it, what that one goes on from, or -1"},
		{[]int32{0, 5, 9}, []int32{-1, -2}, "span 1 goes on from -2, expected the one before it, what that one goes on from, or -1"},
		{[]int32{0, 3, 5, 7, 9}, []int32{-1, 0, 0, 1}, "span 3 goes on from 1, expected the one before it, what that one goes on from, or -1"},
		{[]int32{0, 3, 5, 9}, []int32{-1, -1, 0}, "span 2 goes on from 0, expected the one before it, what that one goes on from, or -1"},
		{[]int32{0, 3, 5, 7, 9}, []int32{-1, 0, 1, 0}, ""},
	} {
		said := func() (words any) {
			defer func() { words = recover() }()
			s := kernels.Spans{Starts: ints(c.starts), Parents: ints(c.parents), N: len(c.parents)}
			m.Attention(out, lse, qkv, s, kernels.Attn{Heads: h}, kernels.F32, T)
			return nil
		}()
		if want := "cpu: Attention: " + c.words; said != any(want) && (c.words != "" || said != nil) {
			t.Errorf("spans %v that go on from %v: %v, expected %q", c.starts, c.parents, said, want)
		}
	}
}

// The positions and blocks of runs are checked before C writes to them.
func TestRunsThatCannotBe(t *testing.T) {
	h := kernels.Heads{Q: 2, KV: 1, Dim: 8}
	m := open(t, Options{Threads: 1})
	ints := func(x ...int32) kernels.Buffer {
		b, err := m.Alloc(kernels.I32, len(x))
		if err != nil {
			t.Fatal(err)
		}
		m.Upload(b, x)
		return b
	}
	c, err := m.NewCache(h, kernels.F32, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	qkv, out := random(t, m, 3*h.Width()), random(t, m, 3*h.OutWidth())
	for _, at := range []struct {
		positions []int32
		words     string
	}{
		{[]int32{-3, -2, -1}, "run 0 is positions -3 to -1; expected -1 at its end, and room for 64"},
		{[]int32{62, 63, 64}, "run 0 is positions 62 to 64; expected 64 at its end, and room for 64"},
		{[]int32{0, 1, 3}, "run 0 is positions 0 to 3; expected 2 at its end, and room for 64"},
		{[]int32{0, 1 << 30, 2}, ""}, // what is between is not read
	} {
		said := func() (words any) {
			defer func() { words = recover() }()
			p := kernels.Paged{Starts: ints(0, 3), Positions: ints(at.positions...), Tables: ints(0, 1), N: 1, Stride: 2}
			m.PagedAttention(out, qkv, c, 0, p, kernels.Attn{Heads: h}, 3)
			return nil
		}()
		if want := "cpu: PagedAttention: " + at.words; said != any(want) && (at.words != "" || said != nil) {
			t.Errorf("positions %v: %v, expected %q", at.positions, said, want)
		}
	}
}

// BenchmarkPagedAttention reads the cache of a layer as decoding does: with one row of each of 32 sequences.
func BenchmarkPagedAttention(b *testing.B) {
	const N, positions = 32, 512
	h := kernels.Heads{Q: 16, KV: 8, Dim: 128}
	m := open(b, Options{})
	ints := func(x []int32) kernels.Buffer {
		buf, err := m.Alloc(kernels.I32, len(x))
		if err != nil {
			b.Fatal(err)
		}
		m.Upload(buf, x)
		return buf
	}
	stride := positions / m.CacheBlock()
	var starts, last, table []int32
	for i := range N * stride {
		table = append(table, int32(i))
	}
	for i := range N {
		starts, last = append(starts, int32(i)), append(last, positions-1)
	}
	p := kernels.Paged{Starts: ints(append(starts, N)), Positions: ints(last), Tables: ints(table), N: N, Stride: stride}
	qkv, out := random(b, m, N*h.Width()), random(b, m, N*h.OutWidth())
	for _, kv := range []kernels.DType{kernels.F32, kernels.BF16} {
		c, err := m.NewCache(h, kv, 1, N*stride)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(kv.String(), func(b *testing.B) {
			rate(b, float64(c.Bytes())/1e9, "GB/s", func() { m.PagedAttention(out, qkv, c, 0, p, kernels.Attn{Heads: h}, N) })
		})
	}
}

func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct {
		h       kernels.Heads
		n, rows int
	}{
		{kernels.Heads{Q: 16, KV: 8, Dim: 128}, 1, 512},
		{kernels.Heads{Q: 16, KV: 8, Dim: 128}, 1, 2048},
		{kernels.Heads{Q: 16, KV: 8, Dim: 128}, 16, 32},
		{kernels.Heads{Q: 16, KV: 8, Dim: 64}, 2, 256},
	} {
		forward, gradient, flops := attentionOps(b, open(b, Options{}), c.h, c.n, c.rows)
		name := fmt.Sprintf("%dx%d/heads=%d,%d,%d", c.n, c.rows, c.h.Q, c.h.KV, c.h.Dim)
		b.Run("forward/"+name, func(b *testing.B) { rate(b, flops/1e9, "GFLOP/s", forward) })
		b.Run("gradient/"+name, func(b *testing.B) { rate(b, 2.5*flops/1e9, "GFLOP/s", gradient) })
	}
}

// random is a buffer of n numbers around zero.
func random(t testing.TB, m kernels.Backend, n int) kernels.Buffer {
	return upload(t, m, normal(rand.New(rand.NewPCG(1, uint64(n))), n))
}

// rate runs op and reports its rate in a unit, and its allocations.
func rate(b *testing.B, amount float64, unit string, op func()) {
	op() // scratch space grows once
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
	b.ReportMetric(amount*float64(b.N)/b.Elapsed().Seconds(), unit)
}
