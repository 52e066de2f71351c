// Package paged tests that attention over a cache has the bits of attention over packed rows.
package paged

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Test tests sequences that run in chunks, over blocks in random order, and sequences that share blocks.
func Test(t *testing.T, b kernels.Backend, h kernels.Attn, kv kernels.DType) {
	t.Helper()
	testChunks(t, memory{b}, h, kv)
	testBranches(t, memory{b}, h, kv)
}

// memory is a backend with the buffers that a test fills and reads.
type memory struct{ kernels.Backend }

func filled[E float32 | int32](m memory, t kernels.DType, x []E) kernels.Buffer {
	b := m.zeros(t, len(x))
	m.Upload(b, x)
	return b
}

func (m memory) f32(x ...float32) kernels.Buffer { return filled(m, kernels.F32, x) }
func (m memory) i32(x ...int32) kernels.Buffer   { return filled(m, kernels.I32, x) }

func (m memory) zeros(t kernels.DType, n int) kernels.Buffer {
	b, err := m.Alloc(t, n)
	if err != nil {
		panic(err)
	}
	return b
}

func (m memory) read(b kernels.Buffer) []float32 {
	x := make([]float32, b.Len())
	if err := m.Download(x, b); err != nil {
		panic(err)
	}
	return x
}

// numbers are n normal ones.
func numbers(seed uint64, n int) []float32 {
	x, random := make([]float32, n), rand.New(rand.NewPCG(seed, 5))
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

// equal requires that got begins with the wanted numbers, with the same bits.
func equal(t *testing.T, what string, want, got []float32) {
	t.Helper()
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			t.Fatalf("%s: number %d is %v (%08x), expected the bits of %v (%08x)", what, i, got[i], math.Float32bits(got[i]), w,
				math.Float32bits(w))
		}
	}
}

// testChunks runs a sequence twice in chunks over blocks in random order, once with its blocks copied between chunks, and requires
// the bits of Attention.
func testChunks(t *testing.T, m memory, h kernels.Attn, kv kernels.DType) {
	t.Helper()
	const T, layers = 75, 2
	n := (T + m.CacheBlock() - 1) / m.CacheBlock() // blocks of a sequence
	stride, blocks := n+1, 3*n+1
	qkv := numbers(0, T*h.Width())
	want := m.zeros(kernels.F32, T*h.OutWidth())
	m.Attention(want, m.zeros(kernels.F32, T*h.Q), m.f32(qkv...), kernels.Spans{Starts: m.i32(0, T), N: 1}, h, kv, T)
	expected := m.read(want)

	c, err := m.NewCache(h.Heads, kv, layers, blocks)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, uint64(h.Width())))
	var permuted []int32
	for _, p := range random.Perm(blocks) {
		permuted = append(permuted, int32(p))
	}
	first, second, copies, spare := permuted[:n], permuted[n:2*n], permuted[2*n:3*n], permuted[3*n]
	tables := [][]int32{append(slices.Clone(first), 0), append(slices.Clone(second), 0)}
	done := []int{0, 0}
	for done[0] < T || done[1] < T {
		var rows []float32
		var positions, starts, table []int32
		var counts []int
		starts = append(starts, 0)
		for i := range tables {
			n := min(1+random.IntN(20)*random.IntN(2), T-done[i])
			for p := done[i]; p < done[i]+n; p++ {
				rows = append(rows, qkv[p*h.Width():(p+1)*h.Width()]...)
				positions = append(positions, int32(p))
			}
			starts, table, counts = append(starts, int32(len(positions))), append(table, tables[i]...), append(counts, n)
		}
		T := len(positions)
		out := m.zeros(kernels.F32, T*h.OutWidth())
		m.PagedAttention(out, m.f32(rows...), c, 1, kernels.Paged{Starts: m.i32(starts...), Positions: m.i32(positions...),
			Tables: m.i32(table...), N: len(counts), Stride: stride}, h, T)
		got := m.read(out)
		for i := range tables {
			equal(t, m.Name(), expected[done[i]*h.OutWidth():(done[i]+counts[i])*h.OutWidth()], got)
			got = got[counts[i]*h.OutWidth():]
			done[i] += counts[i]
		}
		// The second sequence moves to copies of its blocks, each by way of the same spare block: copies must run in order.
		var to, from []int32
		for i, block := range second {
			to, from = append(to, spare, copies[i]), append(from, block, spare)
		}
		m.CopyBlocks(c, m.i32(to...), m.i32(from...), 2*len(second))
		copy(tables[1], copies)
		second, copies = copies, second
	}
}
