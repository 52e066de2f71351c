package paged

import (
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// branch is a sequence in a cache that branches off from the first one, and shares the full blocks before that position.
type branch struct {
	begin int // where its own rows begin
	qkv   []float32
	want  []float32 // of Attention over all its rows
	table []int32
	done  int
}

// branches are samples of a prompt that ends inside a block, branches of one of these further on, and sequences that share nothing, in the
// order in which they run.
func branches(m memory, h kernels.Attn, kv kernels.DType, T int) []branch {
	block := m.CacheBlock()
	third, second := branch{begin: 3*block + 1}, branch{begin: 2*block + 5}
	all := []branch{third, third, third, second, second, {}, second, {}}
	stride := T/block + 1
	for i := range all {
		b := &all[i]
		b.qkv = numbers(uint64(i), T*h.Width())
		copy(b.qkv, all[0].qkv[:b.begin*h.Width()])
		want := m.zeros(kernels.F32, T*h.OutWidth())
		m.Attention(want, m.zeros(kernels.F32, T*h.Q), m.f32(b.qkv...), kernels.Spans{Starts: m.i32(0, int32(T)), N: 1}, h, kv, T)
		b.want = m.read(want)
		for k := range stride {
			b.table = append(b.table, int32(i*stride+k))
		}
		if i > 0 {
			copy(b.table, all[0].table[:b.begin/block])
		}
		b.done = b.begin
	}
	return all
}

// testBranches requires that sequences that share blocks of a cache and run together have the bits of Attention.
func testBranches(t *testing.T, m memory, h kernels.Attn, kv kernels.DType) {
	t.Helper()
	block := m.CacheBlock()
	T := 4*block + 7
	all := branches(m, h, kv, T)
	c, err := m.NewCache(h.Heads, kv, 1, len(all)*len(all[0].table))
	if err != nil {
		t.Fatal(err)
	}
	run := func(some []*branch, rows func(b *branch) int) {
		var qkv []float32
		var positions, table []int32
		starts := []int32{0}
		for _, b := range some {
			for p := b.done; p < b.done+rows(b); p++ {
				positions = append(positions, int32(p))
			}
			qkv = append(qkv, b.qkv[b.done*h.Width():(b.done+rows(b))*h.Width()]...)
			starts, table = append(starts, int32(len(positions))), append(table, b.table...)
		}
		out := m.zeros(kernels.F32, len(positions)*h.OutWidth())
		m.PagedAttention(out, m.f32(qkv...), c, 0, kernels.Paged{Starts: m.i32(starts...), Positions: m.i32(positions...),
			Tables: m.i32(table...), N: len(some), Stride: len(all[0].table)}, h, len(positions))
		got := m.read(out)
		for _, b := range some {
			n := rows(b) * h.OutWidth()
			equal(t, m.Name(), b.want[b.done*h.OutWidth():][:n], got)
			got = got[n:]
			b.done += n / h.OutWidth()
		}
	}
	first := &all[0]
	first.done = 0
	run([]*branch{first}, func(b *branch) int { return b.begin })
	var to, from, some = []int32(nil), []int32(nil), []*branch(nil)
	for i := range all {
		b := &all[i]
		if i > 0 {
			to, from = append(to, b.table[b.begin/block]), append(from, first.table[b.begin/block])
		}
		some = append(some, b)
	}
	m.CopyBlocks(c, m.i32(to...), m.i32(from...), len(to))
	for round := 0; len(some) > 0; round++ {
		run(some, func(b *branch) int { return min(1+(round+b.begin)%3, T-b.done) })
		some = slices.DeleteFunc(some, func(b *branch) bool { return b.done == T })
	}
}
