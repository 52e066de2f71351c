//go:build gpu

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

// cacheBlock is the number of positions in a block of the KV cache, attentionPart the number of positions with a softmax of their own,
// which is merged with the others. The kernels have the same constants: cache_block in src/attention.h and part in src/attend.h.
const (
	cacheBlock    = 32
	attentionPart = 1024
)

// attentionTile is the shape of the tile that one thread block computes: `rows` pairs of a row and a query head, for head sizes up to dim.
type attentionTile struct {
	rows, dim, threads int
	shared             int // bytes
}

// manyTile is the shape of Many in src/attention_many.h: each warp has 16 pairs and all keys.
func manyTile(rows, dim int) attentionTile {
	return attentionTile{rows, dim, 2 * rows, 2*(rows+2*64)*(dim+8) + 32*rows}
}

// tensorTile is the shape of Tensor in src/attention_bf16.cu: warpsAcross warps share 16 pairs, and shared memory has room for `buffers`
// blocks of 64 keys or values.
func tensorTile(rows, dim, warpsAcross, buffers int) attentionTile {
	return attentionTile{rows, dim, 2 * rows * warpsAcross, 2*(rows+buffers*64)*(dim+8) + 2*rows*(64+8) + 4*rows*(warpsAcross+4)}
}

// f32AttentionTile is the shape of Chains in src/attention_f32.cu.
func f32AttentionTile(rows, dim int) attentionTile {
	return attentionTile{rows, dim, 128, 4*(rows+2*32)*(dim+4) + 4*rows*(32+4)}
}

// attentionTiles are the tiles by the type of keys and values: for many rows of a sequence (prefill), and for few (decoding). The choice
// affects only speed: all tiles for a head size give the same bits.
var attentionTiles = map[kernels.DType]struct{ many, few []attentionTile }{
	kernels.BF16: {
		[]attentionTile{manyTile(64, 32), manyTile(64, 64), manyTile(64, 128), tensorTile(32, 256, 4, 2)},
		[]attentionTile{tensorTile(16, 32, 2, 5), tensorTile(16, 64, 4, 5), tensorTile(16, 128, 4, 5), tensorTile(16, 256, 4, 2)},
	},
	kernels.F32: {
		[]attentionTile{f32AttentionTile(32, 32), f32AttentionTile(32, 64), f32AttentionTile(32, 128), f32AttentionTile(16, 256)},
		[]attentionTile{f32AttentionTile(32, 32), f32AttentionTile(32, 64), f32AttentionTile(32, 128), f32AttentionTile(16, 256)},
	},
}

// gradTiles are the tiles of the gradients, by the type of keys and values. For queries, attentionTile.rows counts pairs as above; for
// keys it counts rows of keys and values.
var gradTiles = map[kernels.DType]struct{ queries, keys []attentionTile }{
	kernels.BF16: {
		[]attentionTile{rowsGrad(64, 32, false), rowsGrad(64, 64, false), rowsGrad(64, 128, false), tensorGrad(16, 256, 4, false)},
		[]attentionTile{rowsGrad(64, 32, true), rowsGrad(64, 64, true), rowsGrad(64, 128, true), tensorGrad(16, 256, 4, true)},
	},
	kernels.F32: {
		[]attentionTile{f32GradTile(32, 32, false), f32GradTile(64, 32, false), f32GradTile(128, 32, false), f32GradTile(256, 16, false)},
		[]attentionTile{f32GradTile(32, 32, true), f32GradTile(64, 32, true), f32GradTile(128, 32, true), f32GradTile(256, 16, true)},
	},
}

// rowsGrad is the shape of Slopes in src/attention_grad_rows.h: each warp has 16 rows, and reads the rows of the other operands 32 at a
// time, in two stages.
func rowsGrad(rows, dim int, keys bool) attentionTile {
	bytes := 2 * (2*rows + 2*2*32) * (dim + 8)
	if keys {
		bytes += 2 * 3 * 4 * 32
	}
	return attentionTile{rows, dim, 2 * rows, bytes}
}

// tensorGrad is the shape of Tensor in src/attention_grad_bf16.cu, which reads 64 rows at a time.
func tensorGrad(rows, dim, warpsAcross int, keys bool) attentionTile {
	return attentionTile{rows, dim, 2 * rows * warpsAcross, gradShared(2, rows, 64, dim+8, 64+8, keys)}
}

// f32GradTile is the shape of the tile of src/attention_grad_f32.cu, which reads readRows rows at a time.
func f32GradTile(dim, readRows int, keys bool) attentionTile {
	return attentionTile{16, dim, 128, gradShared(4, 16, readRows, dim+4, readRows+4, keys)}
}

// gradShared is the shared memory in bytes for the two operands of a tile, the two that it reads, and their product. A tile of keys has
// two products, and three numbers for each row that it reads: its log-sum-exp, its delta and its position.
func gradShared(size, rows, readRows, pitch, productPitch int, keys bool) int {
	bytes := size * (2*(rows+readRows)*pitch + rows*productPitch)
	if keys {
		bytes += size*rows*productPitch + 4*(2*readRows+max(readRows, 32))
	}
	return bytes
}

// dtypeNames are the names of a kernel by the type of keys and values.
type dtypeNames struct{ f32, bf16 string }

func namesByDType(op string) dtypeNames { return dtypeNames{op + "_f32", op + "_bf16"} }

func (n dtypeNames) of(kv kernels.DType) string {
	if kv == kernels.F32 {
		return n.f32
	}
	return n.bf16
}

// tiledKernel identifies a kernel with a tile shape. It is a map key because formatting a name would take longer than a launch.
type tiledKernel struct {
	op        string
	kv        kernels.DType
	rows, dim int
}

func (t attentionTile) kernel(op string, kv kernels.DType) tiledKernel {
	return tiledKernel{op, kv, t.rows, t.dim}
}

// String is the name of the kernel.
func (k tiledKernel) String() string {
	return fmt.Sprintf("%s_%dx%d", namesByDType(k.op).of(k.kv), k.rows, k.dim)
}

// blocks is the grid: for each key-value head an upper bound of the number of tiles, because the lengths of the spans are known only on
// the card, where span_of_tile in src/attention.h assigns the tiles.
func (t attentionTile) blocks(spans, pairs int, h kernels.Heads) dims {
	return dims{X: (pairs/t.rows + spans) * h.KV}
}

// tileForHead returns the first tile that has room for heads of the given size: tiles are in ascending order of dim.
func tileForHead(tiles []attentionTile, dim int) attentionTile {
	for _, t := range tiles {
		if dim <= t.dim {
			return t
		}
	}
	panic(fmt.Sprintf("cuda: heads of %d numbers, expected %d at most", dim, tiles[len(tiles)-1].dim))
}

// chooseAttentionTile chooses the tile for few rows if it holds all pairs of an average span, and reports which kind it chose.
func chooseAttentionTile(spans, rows int, h kernels.Heads, kv kernels.DType) (t attentionTile, few bool) {
	t = tileForHead(attentionTiles[kv].few, h.Dim)
	if rows*(h.Q/h.KV) <= t.rows*spans {
		return t, true
	}
	return tileForHead(attentionTiles[kv].many, h.Dim), false
}

// Names of the kernels without tiles, and of the operations with tiles.
var (
	cacheWriteName = namesByDType("cache_write")
	gradPackName   = namesByDType("attention_grad_pack")
)

const (
	attentionName   = "attention"
	gradQueriesName = "attention_grad_queries"
	gradKeysName    = "attention_grad_keys"
)

// allowAttention looks up the attention kernels and allows them the shared memory that they need.
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

// paddedHead is the number of elements of a head in a cache: the head size, rounded up so that heads are aligned to 16 bytes.
func paddedHead(h kernels.Heads) int { return ceil(h.Dim, 8) * 8 }

// cacheRow is the number of elements of a row of a cache: the keys and values of a position.
func cacheRow(h kernels.Heads) int { return 2 * h.KV * paddedHead(h) }

// writeCache writes the keys and values of T rows to a cache.
func (b *Backend) writeCache(cache ptr, qkv arg, p batch, h kernels.Heads, kv kernels.DType, T int) {
	b.launch(cacheWriteName.of(kv), dims{X: T}, address(cache), qkv, p.starts, p.positions, p.from, i64(p.n), i64(p.stride),
		i64(h.Q), i64(h.KV), i64(h.Dim))
}

// attentionOutput is where attention writes: partial results in count parts if parts is set, else results to out, and to lse if that is
// not 0.
type attentionOutput struct {
	out, lse arg
	parts    ptr
	count    int
}

// attend computes attention over a cache.
func (b *Backend) attend(t attentionTile, to attentionOutput, qkv arg, cache ptr, p batch, h kernels.Attn, kv kernels.DType, T int) {
	if T == 0 {
		return
	}
	grid := t.blocks(p.n, T*(h.Q/h.KV), h.Heads)
	grid.Z = max(1, to.count)
	b.note(b.stream.Launch(b.tiled[t.kernel(attentionName, kv)], grid, dims{X: t.threads}, t.shared, to.out, to.lse, address(to.parts),
		i64(to.count), qkv, address(cache), p.starts, p.positions, p.from, i64(p.n), i64(p.stride), i64(h.Q), i64(h.KV), i64(h.Dim),
		f32(h.Factor()), f32(h.Cap), windowSize(h)))
}

// windowSize is the number of positions that a row attends to at most, itself included.
func windowSize(h kernels.Attn) arg { return i64(cmp.Or(h.Window, math.MaxInt32)) }

// gradOperands are the operands of the gradient kernels; src/attention_grad.h has the formulas.
type gradOperands struct {
	dqkv           arg
	cache, queries ptr // rows of keys and values; rows of queries and of gradients of the output
	lse            arg
	delta          ptr // dot product of each output and its gradient
	positions      ptr // of the rows
}

// grad computes the gradients with respect to queries, or to keys and values.
func (b *Backend) grad(op string, t attentionTile, grid dims, g gradOperands, p batch, h kernels.Attn, kv kernels.DType) {
	b.note(b.stream.Launch(b.tiled[t.kernel(op, kv)], grid, dims{X: t.threads}, t.shared, g.dqkv, address(g.cache), address(g.queries), g.lse,
		address(g.delta), address(g.positions), p.starts, p.from, i64(p.n), i64(h.Q), i64(h.KV), i64(h.Dim), f32(h.Factor()), f32(h.Cap),
		windowSize(h)))
}
