//go:build gpu

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

// cacheBlock is the number of positions in a block of a cache, attentionPart the number of positions that share a partial softmax. They
// are cache_block in src/attention.h and part in src/attend.h.
const (
	cacheBlock    = 32
	attentionPart = 1024
)

// attentionTile is a tile shape of attention: `rows` pairs of a row and a query head, for head sizes up to dim.
type attentionTile struct {
	rows, dim, threads int
	shared             int // bytes
}

// manyTile is Many of src/attention_many.h: each warp has 16 pairs and all keys.
func manyTile(rows, dim int) attentionTile {
	return attentionTile{rows, dim, 2 * rows, 2*(rows+2*64)*(dim+8) + 32*rows}
}

// tensorTile is Tensor of src/attention_bf16.cu: warpsAcross warps for each 16 pairs, and shared memory for some blocks of keys or values.
func tensorTile(rows, dim, warpsAcross, buffers int) attentionTile {
	return attentionTile{rows, dim, 2 * rows * warpsAcross, 2*(rows+buffers*64)*(dim+8) + 2*rows*(64+8) + 4*rows*(warpsAcross+4)}
}

// chainsTile is the tile of src/attention_f32.cu.
func chainsTile(rows, dim int) attentionTile {
	return attentionTile{rows, dim, 128, 4*(rows+2*32)*(dim+4) + 4*rows*(32+4)}
}

// attentionTiles are the tiles by the type of keys and values: for many rows of a sequence (prefill), and for few (decoding). All tiles
// for a head size give the same bits.
var attentionTiles = map[kernels.DType]struct{ many, few []attentionTile }{
	kernels.BF16: {
		[]attentionTile{manyTile(64, 32), manyTile(64, 64), manyTile(64, 128), tensorTile(32, 256, 4, 2)},
		[]attentionTile{tensorTile(16, 32, 2, 5), tensorTile(16, 64, 4, 5), tensorTile(16, 128, 4, 5), tensorTile(16, 256, 4, 2)},
	},
	kernels.F32: {
		[]attentionTile{chainsTile(32, 32), chainsTile(32, 64), chainsTile(32, 128), chainsTile(16, 256)},
		[]attentionTile{chainsTile(32, 32), chainsTile(32, 64), chainsTile(32, 128), chainsTile(16, 256)},
	},
}

// gradTiles are the tiles of the gradients, by the type of keys and values: rows counts pairs as above for queries, and rows for keys.
var gradTiles = map[kernels.DType]struct{ queries, keys []attentionTile }{
	kernels.BF16: {
		[]attentionTile{rowsGrad(64, 32, false), rowsGrad(64, 64, false), rowsGrad(64, 128, false), tensorGrad(16, 256, 4, false)},
		[]attentionTile{rowsGrad(64, 32, true), rowsGrad(64, 64, true), rowsGrad(64, 128, true), tensorGrad(16, 256, 4, true)},
	},
	kernels.F32: {
		[]attentionTile{chainsGrad(32, 32, false), chainsGrad(64, 32, false), chainsGrad(128, 32, false), chainsGrad(256, 16, false)},
		[]attentionTile{chainsGrad(32, 32, true), chainsGrad(64, 32, true), chainsGrad(128, 32, true), chainsGrad(256, 16, true)},
	},
}

// rowsGrad is Slopes of src/attention_grad_rows.h: each warp has 16 rows, and reads the others in two stages of 32 rows.
func rowsGrad(rows, dim int, keys bool) attentionTile {
	bytes := 2 * (2*rows + 2*2*32) * (dim + 8)
	if keys {
		bytes += 2 * 3 * 4 * 32
	}
	return attentionTile{rows, dim, 2 * rows, bytes}
}

// tensorGrad is Tensor of src/attention_grad_bf16.cu, which reads 64 rows at a time.
func tensorGrad(rows, dim, warpsAcross int, keys bool) attentionTile {
	return attentionTile{rows, dim, 2 * rows * warpsAcross, gradShared(2, rows, 64, dim+8, 64+8, keys)}
}

// chainsGrad is the tile of src/attention_grad_f32.cu.
func chainsGrad(dim, readRows int, keys bool) attentionTile {
	return attentionTile{16, dim, 128, gradShared(4, 16, readRows, dim+4, readRows+4, keys)}
}

// gradShared is the shared memory for the two operands of a tile, the two that it reads, and their product: for keys two products, and
// three numbers for each row.
func gradShared(size, rows, readRows, pitch, productPitch int, keys bool) int {
	bytes := size * (2*(rows+readRows)*pitch + rows*productPitch)
	if keys {
		bytes += size*rows*productPitch + 4*(2*readRows+max(readRows, 32))
	}
	return bytes
}

// typed are the names of a kernel by the type of keys and values.
type typed struct{ f32, bf16 string }

func typedName(op string) typed { return typed{op + "_f32", op + "_bf16"} }

func (n typed) of(kv kernels.DType) string {
	if kv == kernels.F32 {
		return n.f32
	}
	return n.bf16
}

// tiledKernel is the key of a kernel that computes in tiles. Formatting a name at each launch would take longer than the launch.
type tiledKernel struct {
	op        string
	kv        kernels.DType
	rows, dim int
}

// kernel is the kernel of an operation for a type of keys and values.
func (t attentionTile) kernel(op string, kv kernels.DType) tiledKernel {
	return tiledKernel{op, kv, t.rows, t.dim}
}

// String is the name of the kernel.
func (k tiledKernel) String() string {
	return fmt.Sprintf("%s_%dx%d", typedName(k.op).of(k.kv), k.rows, k.dim)
}

// blocks is the grid: an upper bound of the number of tiles, which span_of_tile in src/attention.h assigns, times the key-value heads.
func (t attentionTile) blocks(spans, pairs int, h kernels.Heads) dims {
	return dims{X: (pairs/t.rows + spans) * h.KV}
}

// fitting is the first tile for a head size.
func fitting(tiles []attentionTile, dim int) attentionTile {
	for _, t := range tiles {
		if dim <= t.dim {
			return t
		}
	}
	panic(fmt.Sprintf("cuda: heads of %d numbers, expected %d at most", dim, tiles[len(tiles)-1].dim))
}

// tileOf chooses a small tile if it holds all pairs of an average span.
func tileOf(spans, rows int, h kernels.Heads, kv kernels.DType) (t attentionTile, few bool) {
	t = fitting(attentionTiles[kv].few, h.Dim)
	if rows*(h.Q/h.KV) <= t.rows*spans {
		return t, true
	}
	return fitting(attentionTiles[kv].many, h.Dim), false
}

// Kernels by type of keys and values, and the operations that compute in tiles.
var (
	cacheWriteName = typedName("cache_write")
	gradPackName   = typedName("attention_grad_pack")
)

const (
	attentionName   = "attention"
	gradQueriesName = "attention_grad_queries"
	gradKeysName    = "attention_grad_keys"
)

// allowAttention allows the attention kernels the shared memory they need.
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
		k := t.kernel(op, kv)
		f := b.kernels[k.String()]
		if f == nil {
			return fmt.Errorf("there is no kernel %s", k)
		}
		if err := f.AllowShared(t.shared); err != nil {
			return err
		}
		b.tiled[k] = f
	}
	return nil
}

// batch gives the positions of the rows of a batch: Batch in src/attention.h.
type batch struct {
	starts, positions, from arg
	n, stride               int
}

// kept is the padded size of a head in a cache.
func kept(h kernels.Heads) int { return ceil(h.Dim, 8) * 8 }

// cacheRow is the number of elements of a row of a cache.
func cacheRow(h kernels.Heads) int { return 2 * h.KV * kept(h) }

// writeCache writes the keys and values of T rows to a cache.
func (b *Backend) writeCache(cache ptr, qkv arg, p batch, h kernels.Heads, kv kernels.DType, T int) {
	b.launch(cacheWriteName.of(kv), dims{X: T}, address(cache), qkv, p.starts, p.positions, p.from, i64(p.n), i64(p.stride),
		i64(h.Q), i64(h.KV), i64(h.Dim))
}

// attended is the output of attention: partial results in count parts if parts is set, else the result.
type attended struct {
	out, lse arg
	parts    ptr
	count    int
}

// attend computes attention over a cache, in the given tiles.
func (b *Backend) attend(t attentionTile, to attended, qkv arg, cache ptr, p batch, h kernels.Attn, kv kernels.DType, T int) {
	if T == 0 {
		return
	}
	grid := t.blocks(p.n, T*(h.Q/h.KV), h.Heads)
	grid.Z = max(1, to.count)
	b.note(b.stream.Launch(b.tiled[t.kernel(attentionName, kv)], grid, dims{X: t.threads}, t.shared, to.out, to.lse, address(to.parts),
		i64(to.count), qkv, address(cache), p.starts, p.positions, p.from, i64(p.n), i64(p.stride), i64(h.Q), i64(h.KV), i64(h.Dim),
		f32(h.Factor()), f32(h.Cap), reach(h)))
}

// reach is the number of positions that a row attends to.
func reach(h kernels.Attn) arg { return i64(cmp.Or(h.Window, math.MaxInt32)) }

// gradient holds the operands of the gradient kernels: rows of keys and values (cache), and of queries with the gradients of the output.
type gradient struct {
	dqkv           arg
	cache, queries ptr
	lse            arg
	delta          ptr
	positions      ptr
}

// grad computes the gradients with respect to queries, or to keys and values.
func (b *Backend) grad(op string, t attentionTile, grid dims, g gradient, p batch, h kernels.Attn, kv kernels.DType) {
	b.note(b.stream.Launch(b.tiled[t.kernel(op, kv)], grid, dims{X: t.threads}, t.shared, g.dqkv, address(g.cache), address(g.queries), g.lse,
		address(g.delta), address(g.positions), p.starts, p.from, i64(p.n), i64(h.Q), i64(h.KV), i64(h.Dim), f32(h.Factor()), f32(h.Cap),
		reach(h)))
}
