package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// testNonfinite: NaN and infinities of a row affect no row before it and no other sequence, even in the same tile, nor a sequence that
// reuses its blocks of the cache.
func testNonfinite(t *testing.T, m *backend) {
	const T = 40
	h := kernels.Attn{Heads: kernels.Heads{Q: 4, KV: 2, Dim: 16}}
	for _, kv := range cacheTypes {
		qkv := fixedNormals("qkv", T*h.Width())
		want := m.attend(qkv, h, kv)
		for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32} {
			if x == math.MaxFloat32 && kv == kernels.F32 {
				continue // NaN stays NaN
			}
			for _, bad := range []int{21, 31} { // one inside of a block, and its last row
				m.testNonfiniteRow(t, h, kv, qkv, want, bad, x)
			}
		}
		first := slices.Clone(qkv) // for one head, all values of the first block are NaN
		for i := range 32 {
			for k := range h.Dim {
				first[i*h.Width()+(h.Q+h.KV)*h.Dim+k] = float32(math.NaN())
			}
		}
		if out := m.attend(first, h, kv); !slices.ContainsFunc(out[39*h.OutWidth():], func(x float32) bool { return x-x != 0 }) {
			t.Errorf("%s: a row does not show NaN among values of %v that it reads first", m.Name(), kv)
		}
	}
}

// testNonfiniteRow puts x among the values of a row, and requires that it affects that row and none before.
func (m *backend) testNonfiniteRow(t *testing.T, h kernels.Attn, kv kernels.DType, qkv, want []float32, bad int, x float32) {
	t.Helper()
	T := len(qkv) / h.Width()
	spoiled := slices.Clone(qkv)
	spoiled[bad*h.Width()+(h.Q+h.KV)*h.Dim+3] = x // a value
	what := fmt.Sprintf("%s: %v among values of %v", m.Name(), x, kv)
	n := bad * h.OutWidth()
	packed := m.attend(spoiled, h, kv)
	equal(t, what, result{{h.OutWidth(), want[:n]}}, result{{h.OutWidth(), packed[:n]}})
	if !slices.ContainsFunc(packed[n:n+h.OutWidth()], func(x float32) bool { return x-x != 0 }) {
		t.Errorf("%s: its row does not show it", what)
	}
	c, err := m.NewCache(h.Heads, kv, 1, (T+m.CacheBlock()-1)/m.CacheBlock())
	if err != nil {
		t.Fatal(err)
	}
	paged := m.attendPaged(spoiled, c, h)
	equal(t, what+", over a cache", result{{h.OutWidth(), packed}}, result{{h.OutWidth(), paged}})
	for _, rows := range []int{1, 2, 33} {
		next := m.attendPaged(qkv[:rows*h.Width()], c, h)
		equal(t, what+", then another sequence in its blocks", result{{h.OutWidth(), want[:rows*h.OutWidth()]}}, result{{h.OutWidth(), next}})
	}
}

// attend is attention of one sequence.
func (m *backend) attend(qkv []float32, h kernels.Attn, kv kernels.DType) []float32 {
	T := len(qkv) / h.Width()
	out := m.zeros(kernels.F32, T*h.OutWidth())
	m.Attention(out, m.zeros(kernels.F32, T*h.Q), m.f32(qkv...), kernels.Spans{Starts: m.i32(0, int32(T)), N: 1}, h, kv, T)
	return sameNaN(m.read(out))
}

// sameNaN gives every NaN the same bits, since those depend on the order of factors.
func sameNaN(x []float32) []float32 {
	for i := range x {
		if x[i] != x[i] {
			x[i] = float32(math.NaN())
		}
	}
	return x
}

// attendPaged is the same over a cache, in its blocks from the first on.
func (m *backend) attendPaged(qkv []float32, c kernels.Cache, h kernels.Attn) []float32 {
	T := len(qkv) / h.Width()
	var positions, table []int32
	for i := range T {
		positions = append(positions, int32(i))
	}
	for i := range c.Blocks() {
		table = append(table, int32(i))
	}
	out := m.zeros(kernels.F32, T*h.OutWidth())
	m.PagedAttention(out, m.f32(qkv...), c, 0, kernels.Paged{Starts: m.i32(0, int32(T)), Positions: m.i32(positions...),
		Tables: m.i32(table...), N: 1, Stride: len(table)}, h, T)
	return sameNaN(m.read(out))
}
