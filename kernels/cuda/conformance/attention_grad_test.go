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

// family is a tree of spans in preorder: where they begin, and the parent that each continues.
type family struct{ starts, parents []int32 }

// drawn is a tree of up to n spans.
func drawn(r *rand.Rand, n int) (f family) {
	f.starts = []int32{0}
	path := []int32{-1}
	for i := range 1 + r.IntN(n) {
		if path = path[:1+r.IntN(len(path))]; i > 0 && len(path) == 1 {
			path = append(path, 0) // one root
		}
		f.parents = append(f.parents, path[len(path)-1])
		path = append(path, int32(i))
		f.starts = append(f.starts, f.starts[i]+int32(r.IntN(40)))
	}
	return f
}

func (f family) rows() int { return int(f.starts[len(f.starts)-1]) }

// beside appends another tree.
func (f family) beside(g family) (both family) {
	spans, rows := int32(len(f.parents)), f.starts[len(f.parents)]
	both.starts, both.parents = append(both.starts, f.starts[:spans]...), append(both.parents, f.parents...)
	for i, parent := range g.parents {
		if parent >= 0 {
			parent += spans
		}
		both.starts, both.parents = append(both.starts, rows+g.starts[i]), append(both.parents, parent)
	}
	both.starts = append(both.starts, rows+g.starts[len(g.parents)])
	return both
}

// gradients computes those of attention over a family, from its own output.
func (o operands) gradients(a attention, qkv, dout []float32, f family, h kernels.Attn, kv kernels.DType) []float32 {
	T := f.rows()
	s := kernels.Spans{Starts: o.i32(f.starts...), Parents: o.i32(f.parents...), N: len(f.parents)}
	out, lse, dqkv, in := o.blank(T*h.OutWidth()), o.blank(T*h.Q), o.blank(T*h.Width()), o.of(qkv...)
	a.Attention(out, lse, in, s, h, kv, T)
	a.AttentionGrad(dqkv, o.of(dout...), in, out, lse, s, h, kv, T)
	return numbers(o.t, a, dqkv)
}

// distance is the distance of two gradients, relative to the norm of the first.
func distance(want, got []float32) float64 {
	var off, norm float64
	for i, w := range want {
		off += math.Pow(float64(w)-float64(got[i]), 2)
		norm += math.Pow(float64(w), 2)
	}
	if norm == 0 && off == 0 {
		return 0
	}
	return math.Sqrt(off / norm)
}

// Gradients for every head size with a tile of its own, and some between: they agree with the oracle, and have the bits of a tree alone,
// whatever the alignment of operands.
func TestAttentionGradients(t *testing.T) {
	card, oracle := opened(t)(), kerneltest.NewReference()
	defer func() { require.NoError(t, card.Close()) }()
	r := rand.New(rand.NewPCG(17, 19))
	worst := map[kernels.DType]float64{}
	for n := range 40 {
		kv := cacheTypes[n%2]
		h := kernels.Attn{Heads: kernels.Heads{Q: 1 + r.IntN(3), KV: 1, Dim: []int{2, 6, 24, 32, 48, 64, 80, 128, 136, 256}[n/2%10]}}
		if r.IntN(3) == 0 {
			h.Scale, h.Cap, h.Window = 0.3, float32(r.IntN(3)), r.IntN(40)
		}
		f := drawn(r, 5)
		before, after := drawn(r, 3), drawn(r, 2)
		all := before.beside(f).beside(after)
		qkv, dout := normals(r, all.rows()*h.Width(), 1), normals(r, all.rows()*h.OutWidth(), 1)
		what := fmt.Sprintf("case %d: %+v %v, %+v", n, h, kv, all)
		got := operands{t, card, r.IntN(4)}.gradients(card, qkv, dout, all, h, kv)
		want := operands{t, oracle, 0}.gradients(oracle, qkv, dout, all, h, kv)
		off := distance(want, got)
		worst[kv] = max(worst[kv], off)
		require.Less(t, off, map[kernels.DType]float64{kernels.F32: 1e-6, kernels.BF16: 1e-2}[kv], what)

		rows := func(x []float32, width int) []float32 { return x[before.rows()*width : (before.rows()+f.rows())*width] }
		alone := operands{t, card, r.IntN(4)}.gradients(card, rows(qkv, h.Width()), rows(dout, h.OutWidth()), f, h, kv)
		require.Equal(t, alone, rows(got, h.Width()), what)
	}
	for _, kv := range cacheTypes {
		t.Logf("%v keys and values: gradients are off by %.1e of their norm at most", kv, worst[kv])
	}
}
