package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// cache is a paged KV cache: the layers are contiguous, and in each the blocks.
type cache struct {
	mem            *memory
	heads          kernels.Heads
	t              kernels.DType
	layers, blocks int
}

func (c *cache) Heads() kernels.Heads { return c.heads }
func (c *cache) DType() kernels.DType { return c.t }
func (c *cache) Layers() int          { return c.layers }
func (c *cache) Blocks() int          { return c.blocks }
func (c *cache) Bytes() int           { return 4 * c.layers * c.blocks * c.blockFloats() }

// blockFloats is the size of one block of one layer, in units of 32 bits: one number, or two of bf16.
func (c *cache) blockFloats() int {
	return c.heads.KV * C.KEYS * (c.heads.Dim + padded(c.heads.Dim)) >> c.pairs()
}

// pairs is 1 if two numbers share 32 bits, else 0.
func (c *cache) pairs() int {
	if c.t == kernels.BF16 {
		return 1
	}
	return 0
}

// layer is the address of layer l.
func (c *cache) layer(l int) unsafe.Pointer {
	return unsafe.Add(c.mem.p, 4*l*c.blocks*c.blockFloats())
}

// CacheBlock is the block size of attention.
func (b *backend) CacheBlock() int { return C.KEYS }

// NewCache allocates blocks of CacheBlock positions in each layer.
func (b *backend) NewCache(h kernels.Heads, t kernels.DType, layers, blocks int) (kernels.Cache, error) {
	c := &cache{heads: h, t: t, layers: layers, blocks: blocks}
	var err error
	c.mem, err = allocate(c.Bytes())
	return c, err
}

func (b *backend) cache(k kernels.Cache) *cache {
	c, ok := k.(*cache)
	if !ok {
		panic(fmt.Sprintf("cpu: %T is not a cache of this backend", k))
	}
	b.keep(c.mem)
	return c
}

// CopyBlocks copies block from[i] to block to[i], in order.
func (b *backend) CopyBlocks(k kernels.Cache, to, from kernels.Buffer, n int) {
	defer b.release()
	c := b.cache(k)
	dst := unsafe.Slice(b.i32(to), n)
	src := unsafe.Slice(b.i32(from), n)
	size := c.blockFloats()
	for l := range c.layers {
		data := unsafe.Slice((*float32)(c.layer(l)), c.blocks*size)
		for i := range n {
			copy(data[int(dst[i])*size:(int(dst[i])+1)*size], data[int(src[i])*size:])
		}
	}
}

// PagedAttention writes the keys and values of the rows to the cache, and then attends to all positions of their sequences.
func (b *backend) PagedAttention(out, qkv kernels.Buffer, k kernels.Cache, layer int, p kernels.Paged, h kernels.Attn, T int) {
	if T == 0 {
		return
	}
	defer b.release()
	c := b.cache(k)
	a := args[C.grpo_paged](b)
	a.out, a.qkv = b.f32(out), b.f32(qkv)
	a.q_heads, a.kv_heads, a.dim = C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim)
	a.scale, a.cap, a.window = C.float(h.Factor()), C.float(h.Cap), window(h)
	a.cache = C.grpo_cache_layer{data: (*C.float)(c.layer(layer)), block_floats: C.int64_t(c.blockFloats()),
		pairs: C.int64_t(c.pairs())}
	rows, tiles := b.planPaged(p, h.Heads, T, c.blocks)
	a.runs, a.count, a.stride = unsafe.SliceData(rows), C.int64_t(T), C.int64_t(p.Stride)
	if b.attendsInTiles(c.t) {
		a.in_tiles = 1
	}
	const pointer = int(unsafe.Sizeof(uintptr(0)))
	b.scratch(2*p.Stride*pointer + 2*attendBytes(h.Heads))
	b.run(b.ops.paged_write, T*h.KV, 8)

	bundles := b.bundle(tiles, h)
	a.runs, a.bundles, a.count = unsafe.SliceData(tiles), unsafe.SliceData(bundles), C.int64_t(len(bundles))
	b.run(b.ops.paged_attention, len(bundles)*h.KV, 1)
}

// planPaged finds the position of each row, and divides the queries of each run into tiles.
func (b *backend) planPaged(p kernels.Paged, h kernels.Heads, T, blocks int) (rows, tiles []C.grpo_run) {
	starts := unsafe.Slice(b.i32(p.Starts), p.N+1)
	positions := unsafe.Slice(b.i32(p.Positions), T)
	tables := b.i32(p.Tables)
	if starts[0] != 0 || int(starts[p.N]) != T {
		panic(fmt.Sprintf("cpu: PagedAttention: runs are rows [%d, %d), expected [0, %d)", starts[0], starts[p.N], T))
	}
	group := h.Q / h.KV
	most := T + T*group/C.TILE_FORWARD + p.N
	all := unsafe.Slice((*C.grpo_run)(b.shared(slotRows, most*C.sizeof_grpo_run)), most)
	rows, tiles = all[:0:T], all[T:T]
	for s := range p.N {
		first, end := int(starts[s]), int(starts[s+1])
		if first == end {
			continue
		}
		run := C.grpo_run{first: C.int64_t(first), length: C.int64_t(end - first),
			position: C.int64_t(positions[first]), table: at(tables, s*p.Stride)}
		last := int(positions[first]) + end - first - 1
		if run.position < 0 || int(positions[end-1]) != last || last >= p.Stride*C.KEYS {
			panic(fmt.Sprintf("cpu: PagedAttention: run %d is positions %d to %d; expected %d at its end, and room for %d",
				s, positions[first], positions[end-1], last, p.Stride*C.KEYS))
		}
		for _, block := range unsafe.Slice(run.table, last/C.KEYS+1) {
			if block < 0 || int(block) >= blocks {
				panic(fmt.Sprintf("cpu: PagedAttention: block %d of run %d, in a cache of %d", block, s, blocks))
			}
		}
		for t := range end - first {
			row := run
			row.position += C.int64_t(t)
			rows = append(rows, row)
		}
		for start := 0; start < (end-first)*group; start += C.TILE_FORWARD {
			tile := run
			tile.start = C.int64_t(start)
			tiles = append(tiles, tile)
		}
	}
	return rows, tiles
}
