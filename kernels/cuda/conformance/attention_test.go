//go:build gpu

package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// attention has the operations that these tests call, on the card and on the oracle.
type attention interface {
	memory
	Attention(out, lse, qkv kernels.Buffer, s kernels.Spans, h kernels.Attn, kv kernels.DType, T int)
	AttentionGrad(dqkv, dout, qkv, out, lse kernels.Buffer, s kernels.Spans, h kernels.Attn, kv kernels.DType, T int)
	CacheBlock() int
	NewCache(h kernels.Heads, t kernels.DType, layers, blocks int) (kernels.Cache, error)
	PagedAttention(out, qkv kernels.Buffer, c kernels.Cache, layer int, p kernels.Paged, h kernels.Attn, T int)
}

var cacheTypes = []kernels.DType{kernels.F32, kernels.BF16}

// i32 uploads integers.
func (o operands) i32(x ...int32) kernels.Buffer {
	b, err := o.in.Alloc(kernels.I32, len(x))
	require.NoError(o.t, err)
	o.in.Upload(b, x)
	return b
}

// zeroed is a buffer of zeros for an output.
func (o operands) zeroed(n int) kernels.Buffer { return o.of(make([]float32, n)...) }

// packedRows computes attention over packed sequences, whose boundaries are starts.
func (o operands) packedRows(a attention, qkv []float32, starts []int32, h kernels.Attn, kv kernels.DType) (out, lse []float32) {
	T := int(starts[len(starts)-1])
	outs, lses := o.zeroed(T*h.OutWidth()), o.zeroed(T*h.Q)
	a.Attention(outs, lses, o.of(qkv...), kernels.Spans{Starts: o.i32(starts...), N: len(starts) - 1}, h, kv, T)
	return numbers(o.t, a, outs), numbers(o.t, a, lses)
}

// paging is a cache of one layer, with the blocks of sequences in random places.
type paging struct {
	operands
	attention
	cache  kernels.Cache
	h      kernels.Attn
	tables [][]int32
}

func newPaging(o operands, a attention, r *rand.Rand, h kernels.Attn, kv kernels.DType, sequences, longest int) *paging {
	blocksPerSequence := (longest + a.CacheBlock() - 1) / a.CacheBlock()
	c, err := a.NewCache(h.Heads, kv, 2, sequences*blocksPerSequence)
	require.NoError(o.t, err)
	p := &paging{o, a, c, h, make([][]int32, sequences)}
	for i, block := range r.Perm(sequences * blocksPerSequence) {
		p.tables[i%sequences] = append(p.tables[i%sequences], int32(block))
	}
	return p
}

// run is consecutive rows of a sequence from a position on.
type run struct {
	sequence, position int
	qkv                []float32
}

// rows computes attention of runs over the cache.
func (p *paging) rows(runs ...run) []float32 {
	var qkv []float32
	var positions, tables []int32
	starts := []int32{0}
	for _, r := range runs {
		for i := range len(r.qkv) / p.h.Width() {
			positions = append(positions, int32(r.position+i))
		}
		qkv, tables = append(qkv, r.qkv...), append(tables, p.tables[r.sequence]...)
		starts = append(starts, int32(len(positions)))
	}
	T := len(positions)
	out := p.zeroed(T * p.h.OutWidth())
	p.PagedAttention(out, p.of(qkv...), p.cache, 1, kernels.Paged{Starts: p.i32(starts...), Positions: p.i32(positions...),
		Tables: p.i32(tables...), N: len(runs), Stride: len(p.tables[0])}, p.h, T)
	return numbers(p.t, p.attention, out)
}

// Sequences so long that attention is computed in several parts agree with the oracle, and have the same bits packed, over the cache, and
// for a last row whose parts are computed in parallel.
func TestLongAttention(t *testing.T) {
	card, oracle := opened(t)(), kerneltest.NewReference()
	defer func() { require.NoError(t, card.Close()) }()
	r := rand.New(rand.NewPCG(3, 5))
	h := kernels.Attn{Heads: kernels.Heads{Q: 2, KV: 1, Dim: 32}}
	const T = 1100
	qkv := normals(r, T*h.Width(), 1)
	for i := range 2 * len(cacheTypes) {
		kv := cacheTypes[i%2]
		h.Window = i / 2 * 50 // the last rows then read only the second part
		o := operands{t, card, 1}
		want, wantLSE := operands{t, oracle, 0}.packedRows(oracle, qkv, []int32{0, T}, h, kv)
		out, lse := o.packedRows(card, qkv, []int32{0, T}, h, kv)
		t.Logf("%v keys and values, %d positions: a row is off by %.1e at most, its log of the sum of weights by %.1e", kv, T,
			largestError(want, out), largestError(wantLSE, lse))
		within := map[kernels.DType]float64{kernels.F32: 5e-6, kernels.BF16: 1e-2}[kv]
		require.Less(t, largestError(want, out), within)
		require.Less(t, largestError(wantLSE, lse), within)

		p := newPaging(o, card, r, h, kv, 2, T)
		last := (T - 1) * h.Width()
		require.Equal(t, out[:(T-1)*h.OutWidth()], p.rows(run{1, 0, qkv[:last]}), "rows in a cache have the bits of packed ones")
		alone := normals(r, h.Width(), 1)
		first, _ := o.packedRows(card, alone, []int32{0, 1}, h, kv)
		got := p.rows(run{0, 0, alone}, run{1, T - 1, qkv[last:]})
		require.Equal(t, first, got[:h.OutWidth()], "a row at the start, beside a late one")
		require.Equal(t, out[(T-1)*h.OutWidth():], got[h.OutWidth():], "a row whose parts are computed in parallel")
	}
}

func largestError(want, got []float32) (worst float64) {
	for i := range want {
		off := math.Abs(float64(want[i]) - float64(got[i]))
		if !(off <= worst) { // NaN fails, too
			worst = off
		}
	}
	return worst
}

// A row has the bits that it has at the end of its sequence alone, in any batch, packed or through the cache, and whatever the alignment
// of operands.
func TestAttentionRowsAlone(t *testing.T) {
	card := opened(t)()
	defer func() { require.NoError(t, card.Close()) }()
	r := rand.New(rand.NewPCG(11, 13))
	for n := range 200 {
		heads := 1 + r.IntN(2)*r.IntN(2)
		h := kernels.Attn{Heads: kernels.Heads{Q: heads * (1 + r.IntN(5)), KV: heads,
			Dim: []int{2, 6, 10, 16, 24, 32, 48, 64, 80, 128, 136, 256}[r.IntN(12)]}}
		if r.IntN(3) == 0 {
			h.Scale, h.Cap, h.Window = 0.3, float32(r.IntN(3)), r.IntN(40)
		}
		kv, o := cacheTypes[n%2], operands{t, card, r.IntN(4)}
		starts := []int32{0}
		for range 1 + r.IntN(4) {
			starts = append(starts, starts[len(starts)-1]+int32(r.IntN(25)))
		}
		starts = append(starts, starts[len(starts)-1]+1+int32(r.IntN(80))) // the sequence under test
		sequence := len(starts) - 2
		if r.IntN(2) == 0 {
			starts = append(starts, starts[sequence+1]+int32(r.IntN(25)))
		}
		qkv := normals(r, int(starts[len(starts)-1])*h.Width(), 1)
		first, length := int(starts[sequence]), int(starts[sequence+1]-starts[sequence])
		row := r.IntN(length)
		out, lse := o.packedRows(card, qkv, starts, h, kv)
		of := out[(first+row)*h.OutWidth() : (first+row+1)*h.OutWidth()]
		own := qkv[first*h.Width() : (first+length)*h.Width()]
		what := fmt.Sprintf("case %d: %+v %v, row %d of %d, %d rows before", n, h, kv, row, length, first)

		o.shift = r.IntN(4)
		alone, aloneLSE := o.packedRows(card, own[:(row+1)*h.Width()], []int32{0, int32(row + 1)}, h, kv)
		require.Equal(t, of, alone[row*h.OutWidth():], what)
		require.Equal(t, lse[(first+row)*h.Q:(first+row+1)*h.Q], aloneLSE[row*h.Q:], what)

		p := newPaging(o, card, r, h, kv, 2, length)
		if row > 0 {
			p.rows(run{0, 0, own[:row*h.Width()]})
		}
		got := p.rows(run{1, 0, own[:(1+r.IntN(length))*h.Width()]}, run{0, row, own[row*h.Width():]})
		require.Equal(t, of, got[len(got)-(length-row)*h.OutWidth():][:h.OutWidth()], what)
	}
}
