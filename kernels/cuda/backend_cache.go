//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// cache holds, for each layer and block, rows of keys and values, one per position.
type cache struct {
	heads          kernels.Heads
	t              kernels.DType
	layers, blocks int
	memory         *driver.Memory
}

func (c *cache) Heads() kernels.Heads { return c.heads }
func (c *cache) DType() kernels.DType { return c.t }
func (c *cache) Layers() int          { return c.layers }
func (c *cache) Blocks() int          { return c.blocks }
func (c *cache) Bytes() int           { return int(c.memory.Bytes) }

// blockBytes is the size of a block in one layer.
func (c *cache) blockBytes() int { return cacheBlock * cacheRow(c.heads) * c.t.Size() }

// layer is the address of the rows of a layer.
func (c *cache) layer(n int) ptr { return c.memory.At + ptr(n*c.blocks*c.blockBytes()) }

func ownCache(k kernels.Cache) *cache {
	c, ok := k.(*cache)
	if !ok {
		panic(fmt.Sprintf("cuda: the backend was given a %T, expected a cache of its own", k))
	}
	return c
}

// CacheBlock divides the number of positions that attention reads at a time, 64 in bf16 and 32 in f32.
func (b *Backend) CacheBlock() int { return cacheBlock }

// NewCache fills the cache with zeros, because CopyBlocks copies whole blocks, which may not be full yet.
func (b *Backend) NewCache(h kernels.Heads, t kernels.DType, layers, blocks int) (kernels.Cache, error) {
	c := &cache{heads: h, t: t, layers: layers, blocks: blocks}
	bytes := int64(layers) * int64(blocks) * int64(c.blockBytes())
	m, err := b.memory.take(b, bytes)
	if err != nil {
		return nil, err
	}
	if err := b.stream.Fill(m.At, 0, bytes); err != nil {
		return nil, errors.Join(err, b.memory.free(m))
	}
	c.memory = m
	runtime.AddCleanup(c, b.memory.orphan, m)
	return c, nil
}

// CopyBlocks copies blocks in every layer.
func (b *Backend) CopyBlocks(k kernels.Cache, to, from kernels.Buffer, n int) {
	c := ownCache(k)
	if n == 0 {
		return
	}
	size := c.blockBytes() / 16
	b.launch("cache_copy", blocks(size, threads).By(c.layers, 1), address(c.memory.At), at(to), at(from), i64(n), i64(size),
		i64(c.blocks*size))
}

// PagedAttention writes to a cache and attends to it. With few rows, separate blocks handle each part of the positions (split-K), and
// their results are merged.
func (b *Backend) PagedAttention(out, qkv kernels.Buffer, k kernels.Cache, layer int, p kernels.Paged, h kernels.Attn, T int) {
	c := ownCache(k)
	rows := batch{at(p.Starts), at(p.Positions), at(p.Tables), p.N, p.Stride}
	b.writeCache(c.layer(layer), at(qkv), rows, h.Heads, c.t, T)
	t, few := chooseAttentionTile(p.N, T, h.Heads, c.t)
	to := attentionOutput{out: at(out)}
	if parts := ceil(p.Stride*cacheBlock, attentionPart); few && parts > 1 {
		sums, ok := b.scratchFor(4 * T * h.Q * parts * (4 + h.Dim))
		if !ok {
			return
		}
		to.parts, to.count = sums, parts
	}
	b.attend(t, to, at(qkv), c.layer(layer), rows, h, c.t, T)
	if to.count > 0 {
		b.launch("attention_merge", blocks(T*h.Q, threads/32), at(out), address(to.parts), at(p.Positions), i64(h.Q), i64(h.Dim),
			i64(to.count), i64(T), windowSize(h))
	}
}
