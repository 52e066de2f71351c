//go:build gpu

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

// CacheBlock is how many positions a block of a cache has, and attentionPart how many a softmax of its own: cache_block and part in
// src/attention.h.
const (
	cacheBlock    = 32
	attentionPart = 1024
)

// attentionTile is a shape in which attention is computed: high pairs of a row and a query head, for head sizes up to dim.
type attentionTile struct {
	high, dim, threads int
	shared             int // bytes
}

// tensorTile is that of src/attention_bf16.cu: warps for each 16 pairs, and so many side by side, with keys and values in stages.
func tensorTile(high, dim, across, stages int) attentionTile {
	return attentionTile{high, dim, 2 * high * across, 2*(high+2*stages*64)*(dim+8) + 2*high*(64+8) + 4*high*(across+4)}
}

// chainsTile is that of src/attention_f32.cu.
func chainsTile(high, dim int) attentionTile {
	return attentionTile{high, dim, 128, 4*(high+2*32)*(dim+4) + 4*high*(32+4)}
}

// attentionTiles are the shapes for keys and values of a type: for many rows of a sequence, and for few, of a decoding step above all. All
// that serve a head size give the same bits.
var attentionTiles = map[kernels.DType]struct{ many, few []attentionTile }{
	kernels.BF16: {
		[]attentionTile{tensorTile(64, 32, 2, 1), tensorTile(64, 64, 2, 1), tensorTile(64, 128, 2, 1), tensorTile(32, 256, 4, 1)},
		[]attentionTile{tensorTile(16, 32, 2, 2), tensorTile(16, 64, 4, 2), tensorTile(16, 128, 4, 2), tensorTile(16, 256, 4, 1)},
	},
	kernels.F32: {
		[]attentionTile{chainsTile(32, 32), chainsTile(32, 64), chainsTile(32, 128), chainsTile(16, 256)},
		[]attentionTile{chainsTile(32, 32), chainsTile(32, 64), chainsTile(32, 128), chainsTile(16, 256)},
	},
}

// gradTiles are those of queries, and those of keys, for keys and values of a type: high is queries, in pairs as above, or rows.
var gradTiles = map[kernels.DType]struct{ queries, keys []attentionTile }{
	kernels.BF16: {
		[]attentionTile{tensorGrad(64, 32, 2, false), tensorGrad(64, 64, 2, false), tensorGrad(64, 128, 2, false), tensorGrad(16, 256, 4, false)},
		[]attentionTile{tensorGrad(64, 32, 2, true), tensorGrad(64, 64, 2, true), tensorGrad(64, 128, 4, true), tensorGrad(16, 256, 4, true)},
	},
	kernels.F32: {
		[]attentionTile{chainsGrad(32, 32, false), chainsGrad(64, 32, false), chainsGrad(128, 32, false), chainsGrad(256, 16, false)},
		[]attentionTile{chainsGrad(32, 32, true), chainsGrad(64, 32, true), chainsGrad(128, 32, true), chainsGrad(256, 16, true)},
	},
}

// tensorGrad is a shape of src/attention_grad_bf16.cu, which reads 64 rows at a time.
func tensorGrad(high, dim, across int, keys bool) attentionTile {
	return attentionTile{high, dim, 2 * high * across, gradShared(2, high, 64, dim+8, 64+8, keys)}
}

// chainsGrad is that of src/attention_grad_f32.cu.
func chainsGrad(dim, deep int, keys bool) attentionTile {
	return attentionTile{16, dim, 128, gradShared(4, 16, deep, dim+4, deep+4, keys)}
}

// gradShared is two operands of a tile's own and two that it reads, and what they give: for keys twice, with three numbers for each row.
func gradShared(size, high, deep, pitch, between int, keys bool) int {
	bytes := size * (2*(high+deep)*pitch + high*between)
	if keys {
		bytes += size*high*between + 4*(2*deep+max(deep, 32))
	}
	return bytes
}

// typeName is a type in the name of a kernel.
func typeName(t kernels.DType) string {
	if t == kernels.F32 {
		return "f32"
	}
	return "bf16"
}

// kernel is the name of an operation over keys and values of a type.
func (t attentionTile) kernel(op string, kv kernels.DType) string {
	return fmt.Sprintf("%s_%s_%dx%d", op, typeName(kv), t.high, t.dim)
}

// tiles are how many numbers of tiles there are, as span_of_tile in src/attention.h deals them.
func (t attentionTile) tiles(spans, rows int, h kernels.Heads) int {
	return rows*(h.Q/h.KV)/t.high + spans
}

// fitting is the first shape that serves a head size.
func fitting(tiles []attentionTile, dim int) attentionTile {
	for _, t := range tiles {
		if dim <= t.dim {
			return t
		}
	}
	panic(fmt.Sprintf("cuda: heads of %d numbers, expected %d at most", dim, tiles[len(tiles)-1].dim))
}

// tileOf takes a small shape where a tile of it holds all pairs that a span has on average.
func tileOf(spans, rows int, h kernels.Heads, kv kernels.DType) (t attentionTile, few bool) {
	t = fitting(attentionTiles[kv].few, h.Dim)
	if rows*(h.Q/h.KV) <= t.high*spans {
		return t, true
	}
	return fitting(attentionTiles[kv].many, h.Dim), false
}

// The kernels' names begin with the operation.
const (
	attentionName   = "attention"
	gradQueriesName = "attention_grad_queries"
	gradKeysName    = "attention_grad_keys"
)

// allowAttention lets kernels have the shared memory that they take.
func (b *Backend) allowAttention() error {
	for kv, shapes := range attentionTiles {
		err := errors.Join(b.allow(attentionName, kv, shapes.many), b.allow(attentionName, kv, shapes.few),
			b.allow(gradQueriesName, kv, gradTiles[kv].queries), b.allow(gradKeysName, kv, gradTiles[kv].keys))
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) allow(op string, kv kernels.DType, tiles []attentionTile) error {
	for _, t := range tiles {
		f := b.kernels[t.kernel(op, kv)]
		if f == nil {
			return fmt.Errorf("there is no kernel %s", t.kernel(op, kv))
		}
		if err := f.AllowShared(t.shared); err != nil {
			return err
		}
	}
	return nil
}

// batch is where the rows of a batch stand: Batch in src/attention.h.
type batch struct {
	starts, positions, from Arg
	n, stride               int
}

// kept is how many numbers a head has in a cache.
func kept(h kernels.Heads) int { return ceil(h.Dim, 8) * 8 }

// cacheRow is how many numbers a row of a cache has.
func cacheRow(h kernels.Heads) int { return 2 * h.KV * kept(h) }

// writeCache writes the keys and values of T rows to their places.
func (b *Backend) writeCache(cache Ptr, qkv Arg, p batch, h kernels.Heads, kv kernels.DType, T int) {
	b.launch("cache_write_"+typeName(kv), Dim{X: T}, Address(cache), qkv, p.starts, p.positions, p.from, Int(p.n), Int(p.stride),
		Int(h.Q), Int(h.KV), Int(h.Dim))
}

// attended is what attention writes: parts of count each, if there is memory for them.
type attended struct {
	out, lse Arg
	parts    Ptr
	count    int
}

// attend reads a cache, in tiles of that shape.
func (b *Backend) attend(t attentionTile, to attended, qkv Arg, cache Ptr, p batch, h kernels.Attn, kv kernels.DType, T int) {
	if T == 0 {
		return
	}
	grid := Dim{t.tiles(p.n, T, h.Heads), h.KV, max(1, to.count)}
	b.note(b.stream.Launch(b.kernels[t.kernel(attentionName, kv)], grid, Dim{X: t.threads}, t.shared, to.out, to.lse, Address(to.parts),
		Int(to.count), qkv, Address(cache), p.starts, p.positions, p.from, Int(p.n), Int(p.stride), Int(h.Q), Int(h.KV), Int(h.Dim),
		Float(h.Factor()), Float(h.Cap), reach(h)))
}

// reach is how many positions a row reads.
func reach(h kernels.Attn) Arg { return Int(cmp.Or(h.Window, math.MaxInt32)) }

// gradient is what the kernels of a gradient are given: rows of keys and values, and of queries and gradients of the output.
type gradient struct {
	dqkv         Arg
	cache, asked Ptr
	lse          Arg
	delta        Ptr
	positions    Ptr
}

// grad computes the gradients to queries, or to keys and values.
func (b *Backend) grad(op string, t attentionTile, grid Dim, g gradient, p batch, h kernels.Attn, kv kernels.DType) {
	b.note(b.stream.Launch(b.kernels[t.kernel(op, kv)], grid, Dim{X: t.threads}, t.shared, g.dqkv, Address(g.cache), Address(g.asked), g.lse,
		Address(g.delta), Address(g.positions), p.starts, p.from, Int(p.n), Int(h.Q), Int(h.KV), Int(h.Dim), Float(h.Factor()), Float(h.Cap),
		reach(h)))
}
