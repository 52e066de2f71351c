package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// tree is a tree of sequences with common prefixes: its spans, in preorder.
type tree struct{ lengths, parents []int }

func (t tree) rows() (n int) {
	for _, l := range t.lengths {
		n += l
	}
	return n
}

// trees are test trees: a single sequence; prompts with completions, where the prompt ends inside a block of keys and at the
// end of one; branches within one block; spans without rows; a long comb; and random trees.
func trees() (all []tree) {
	all = []tree{
		{[]int{37}, []int{-1}},
		{[]int{45, 3, 70, 1, 20}, []int{-1, 0, 0, 0, 0}},
		{[]int{64, 31, 33, 32}, []int{-1, 0, 0, 0}},
		{[]int{1, 2, 3, 4, 5, 6, 40}, []int{-1, 0, 1, 1, 0, 4, 5}},
		{[]int{0, 0, 9, 0, 30, 0, 5}, []int{-1, 0, 1, 2, 3, 3, 2}},
		{[]int{5, 7, 11, 13, 17, 19, 23, 6}, []int{-1, 0, 1, 2, 3, 4, 5, 5}},
	}
	random := rand.New(rand.NewPCG(5, 6))
	for range 3 {
		all = append(all, randomTree(random, 12))
	}
	return all
}

// randomTree has n spans; the parent of each is a random one that preorder allows.
func randomTree(random *rand.Rand, n int) (t tree) {
	path := []int{}
	for i := range n {
		parent := -1
		if i > 0 {
			path = path[:1+random.IntN(len(path))]
			parent = path[len(path)-1]
		}
		path = append(path, i)
		t.lengths, t.parents = append(t.lengths, random.IntN(40)), append(t.parents, parent)
	}
	return t
}

// spansOf are the spans of trees, one after the other.
func (m *backend) spansOf(trees ...tree) kernels.Spans {
	starts, parents := []int32{0}, []int32{}
	for _, t := range trees {
		root := int32(len(parents))
		for i, n := range t.lengths {
			starts = append(starts, starts[len(starts)-1]+int32(n))
			if p := t.parents[i]; p < 0 {
				parents = append(parents, -1)
			} else {
				parents = append(parents, root+int32(p))
			}
		}
	}
	return kernels.Spans{Starts: m.i32(starts...), Parents: m.i32(parents...), N: len(parents)}
}

// spans are the starts of the units of this call, and the parents of the spans of those that are trees.
func (c *call) spans() kernels.Spans {
	if len(c.trees) > 0 {
		var all []tree
		for _, u := range c.units {
			all = append(all, c.trees[u[0]])
		}
		return c.spansOf(all...)
	}
	starts := []int32{0}
	for _, u := range c.units {
		starts = append(starts, starts[len(starts)-1]+int32(len(u)))
	}
	return kernels.Spans{Starts: c.i32(starts...), N: len(c.units)}
}

// testTrees compares a tree with its sequences packed one by one: every row has the same bits, and a row's gradient is the sum of
// its gradients in the sequences. A tree of a single sequence gives the bits of that sequence without parents, gradients
// included.
func testTrees(t *testing.T, o Tolerance, m *backend) {
	for i, shape := range trees() {
		h, kv := attnShapes[i%len(attnShapes)], cacheTypes[i%2]
		T := shape.rows()
		qkv, dout := fixedNormals("qkv", T*h.Width()), fixedNormals("dout", T*h.OutWidth())
		tree := attentionWithGrad(m, m.spansOf(shape), h, kv, qkv, dout)

		var rows []int // of the tree, in the order of its sequences
		var starts []int32
		for _, path := range leafPaths(shape) {
			starts, rows = append(starts, int32(len(rows))), append(rows, path...)
		}
		packedSpans := kernels.Spans{Starts: m.i32(append(starts, int32(len(rows)))...), N: len(starts)}
		// The output gradient of a row that several sequences share is given to only one of them.
		ownDout, seen := make([]float32, len(rows)*h.OutWidth()), map[int]bool{}
		all := make([]float32, 0, len(rows)*h.Width())
		for k, r := range rows {
			all = append(all, qkv[r*h.Width():(r+1)*h.Width()]...)
			if !seen[r] {
				copy(ownDout[k*h.OutWidth():], dout[r*h.OutWidth():(r+1)*h.OutWidth()])
			}
			seen[r] = true
		}
		packed := attentionWithGrad(m, packedSpans, h, kv, all, ownDout)
		name := fmt.Sprintf("tree %v %v over %v", shape, h, kv)
		sums := output{width: h.Width(), data: make([]float32, T*h.Width())}
		for k, r := range rows {
			for o := range 2 {
				w := tree[o].width
				equal(t, name, result{{w, packed[o].data[k*w : (k+1)*w]}}, result{{w, tree[o].data[r*w : (r+1)*w]}})
			}
			for c := range h.Width() {
				sums.data[r*h.Width()+c] += packed[2].data[k*h.Width()+c]
			}
		}
		nearSlice(t, name, 2, 4*map[kernels.DType]float64{kernels.F32: o.F32, kernels.BF16: o.Attention}[kv], sums, tree[2])
		if len(starts) == 1 {
			equal(t, name, packed, tree)
		}
	}
}

// leafPaths are the rows of each sequence of a tree; each span without children ends one.
func leafPaths(shape tree) (all [][]int) {
	packedSpans, inner, row := make([][]int, len(shape.lengths)), map[int]bool{}, 0
	for i, n := range shape.lengths {
		if p := shape.parents[i]; p >= 0 {
			packedSpans[i] = append(packedSpans[i], packedSpans[p]...)
			inner[p] = true
		}
		for range n {
			packedSpans[i] = append(packedSpans[i], row)
			row++
		}
	}
	for i, path := range packedSpans {
		if !inner[i] {
			all = append(all, path)
		}
	}
	return all
}

// attentionWithGrad computes the output of attention, the logarithms of its sums, and the gradient.
func attentionWithGrad(m *backend, s kernels.Spans, h kernels.Attn, kv kernels.DType, qkv, dout []float32) result {
	T := len(qkv) / h.Width()
	in := m.f32(qkv...)
	out, lse, dqkv := m.zeros(kernels.F32, T*h.OutWidth()), m.zeros(kernels.F32, T*h.Q), m.zeros(kernels.F32, T*h.Width())
	m.Attention(out, lse, in, s, h, kv, T)
	m.AttentionGrad(dqkv, m.f32(dout...), in, out, lse, s, h, kv, T)
	return result{{h.OutWidth(), m.read(out)}, {h.Q, m.read(lse)}, {h.Width(), m.read(dqkv)}}
}
