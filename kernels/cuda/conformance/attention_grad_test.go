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

// spanTree is a tree of spans in preorder: where each begins, and the parent that it continues.
type spanTree struct{ starts, parents []int32 }

// randomTree is a tree of up to n spans.
func randomTree(r *rand.Rand, n int) (f spanTree) {
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

func (f spanTree) rows() int { return int(f.starts[len(f.starts)-1]) }

// concat appends another tree.
func (f spanTree) concat(g spanTree) (both spanTree) {
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

// gradients computes the gradients of attention over a tree, including the forward pass that they need.
func (o operands) gradients(a attention, qkv, dout []float32, f spanTree, h kernels.Attn, kv kernels.DType) []float32 {
	T := f.rows()
	s := kernels.Spans{Starts: o.i32(f.starts...), Parents: o.i32(f.parents...), N: len(f.parents)}
	out, lse, dqkv, in := o.zeroed(T*h.OutWidth()), o.zeroed(T*h.Q), o.zeroed(T*h.Width()), o.of(qkv...)
	a.Attention(out, lse, in, s, h, kv, T)
	a.AttentionGrad(dqkv, o.of(dout...), in, out, lse, s, h, kv, T)
	return numbers(o.t, a, dqkv)
}

// relativeDistance is the norm of the difference of two gradients, relative to the norm of the first.
func relativeDistance(want, got []float32) float64 {
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
		f := randomTree(r, 5)
		before, after := randomTree(r, 3), randomTree(r, 2)
		all := before.concat(f).concat(after)
		qkv, dout := normals(r, all.rows()*h.Width(), 1), normals(r, all.rows()*h.OutWidth(), 1)
		what := fmt.Sprintf("case %d: %+v %v, %+v", n, h, kv, all)
		got := operands{t, card, r.IntN(4)}.gradients(card, qkv, dout, all, h, kv)
		want := operands{t, oracle, 0}.gradients(oracle, qkv, dout, all, h, kv)
		off := relativeDistance(want, got)
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
