package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Attention packs every span's keys and values into blocks; then each tile of queries reads the blocks of its path.
func (b *backend) Attention(out, lse, qkv kernels.Buffer, s kernels.Spans, h kernels.Attn, kv kernels.DType, T int) {
	defer b.release()
	a := args[C.grpo_attention](b)
	a.out, a.lse = b.f32(out), b.f32(lse)
	a.stream = C.int64_t(flag(streams(T * h.OutWidth())))
	b.setQKV(a, qkv, h.Heads, kv)
	plan := b.planAttention(a, s, h, T)
	b.packAttention(a, h.Heads, kv, plan, false)

	const pointer = int(unsafe.Sizeof(uintptr(0)))
	b.scratch(2*int(a.longest)*pointer + attendBytes(h.Heads))
	b.run(b.ops.attention, plan.tiles*h.KV, 1)
}

// AttentionGrad does one key-value head of one tree per task, from its first query to its last. So for a batch of one
// tree no more threads work than there are key-value heads.
func (b *backend) AttentionGrad(dqkv, dout, qkv, out, lse kernels.Buffer, s kernels.Spans, h kernels.Attn, kv kernels.DType,
	T int) {
	defer b.release()
	a := args[C.grpo_attention](b)
	a.dqkv, a.dout = b.f32(dqkv), b.f32(dout)
	a.out, a.lse = b.f32(out), b.f32(lse)
	b.setQKV(a, qkv, h.Heads, kv)
	plan := b.planAttention(a, s, h, T)
	b.packAttention(a, h.Heads, kv, plan, true)

	b.scratch(4 * (gradTile(h.Dim, a.in_tiles != 0) + 2*C.KEYS*int(a.slots)*padded(h.Dim)))
	b.run(b.ops.attention_grad, plan.trees*h.KV, 1)
}

// setQKV sets the rows of queries, keys and values.
func (b *backend) setQKV(a *C.grpo_attention, qkv kernels.Buffer, h kernels.Heads, kv kernels.DType) {
	a.qkv, a.row = (*C.float)(b.address(qkv)), C.int64_t(h.Width())
	if apart := apartOf(qkv, h.Width()); apart > 0 {
		if !b.attendsInTiles(kv) {
			panic("cpu: rounded rows are for attention in the order of tiles, with keys and values in bf16")
		}
		a.rounded, a.row = 1, apart/4
	}
}

// attendsInTiles tells whether products with keys and values of a type are summed in the order of tiles: only those in bf16 are.
func (b *backend) attendsInTiles(kv kernels.DType) bool {
	return b.order == kernels.Tiles && kv == kernels.BF16
}

// attendBytes is the scratch space of a tile of queries.
func attendBytes(h kernels.Heads) int {
	return 4 * int(C.grpo_attend_floats(C.int64_t(h.Dim), C.int64_t(padded(h.Dim))))
}

// window is how many positions a query attends to.
func window(h kernels.Attn) C.int64_t {
	if h.Window == 0 {
		return math.MaxInt32
	}
	return C.int64_t(h.Window)
}

// padded is dim rounded up to the number of columns of a row in a block.
func padded(dim int) int { return blocksOf(dim, C.KEYS) * C.KEYS }

// gradTile is the scratch space of the queries that the gradient processes together, in floats.
func gradTile(dim int, inTiles bool) int {
	tiles := C.int(0)
	if inTiles {
		tiles = 1
	}
	return int(C.grpo_grad_floats(C.int64_t(dim), C.int64_t(padded(dim)), tiles))
}

// attentionPlan is the division of a batch: into trees of spans, tiles of queries, and blocks of keys, which may be on
// many paths.
type attentionPlan struct {
	spans        []C.grpo_span
	trees, tiles int
	entries      int // the length of all paths, in blocks
}

// planAttention sets the shape, the spans, their paths and the tiles.
func (b *backend) planAttention(a *C.grpo_attention, s kernels.Spans, h kernels.Attn, T int) attentionPlan {
	a.q_heads, a.kv_heads, a.dim = C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim)
	a.scale, a.cap, a.window = C.float(h.Factor()), C.float(h.Cap), window(h)
	p := b.planSpans(a, s, T)
	group := h.Q / h.KV
	for i := range p.spans {
		p.tiles += blocksOf(int(p.spans[i].length)*group, C.TILE_FORWARD)
	}
	memory := b.shared(slotIndex, p.tiles*C.sizeof_grpo_tile+p.entries*C.sizeof_grpo_block+p.trees*C.sizeof_int32_t)
	a.tiles, a.tile_count = (*C.grpo_tile)(memory), C.int64_t(p.tiles)
	a.paths = (*C.grpo_block)(unsafe.Add(memory, p.tiles*C.sizeof_grpo_tile))
	a.trees = (*C.int32_t)(unsafe.Add(unsafe.Pointer(a.paths), p.entries*C.sizeof_grpo_block))

	tiles, paths, trees := unsafe.Slice(a.tiles, p.tiles)[:0], unsafe.Slice(a.paths, p.entries), unsafe.Slice(a.trees, p.trees)[:0]
	for i := range p.spans {
		span := &p.spans[i]
		if span.length == 0 {
			continue
		}
		if span.parent < 0 {
			trees = append(trees, C.int32_t(i))
		}
		for start := 0; start < int(span.length)*group; start += C.TILE_FORWARD {
			tiles = append(tiles, C.grpo_tile{span: C.int32_t(i), start: C.int32_t(start)})
		}
		before := span.base / C.KEYS
		path := paths[span.path:][:before+span.blocks]
		if before > 0 {
			copy(path[:before], paths[p.spans[span.parent].path:])
		}
		for k := range span.blocks {
			path[before+k] = C.grpo_block{number: C.int32_t(span.block + k), slot: C.int32_t(span.slot + k)}
		}
	}
	return p
}

// planSpans reads the first rows and the parents of the spans.
func (b *backend) planSpans(a *C.grpo_attention, s kernels.Spans, T int) (p attentionPlan) {
	starts := unsafe.Slice(b.i32(s.Starts), s.N+1)
	if starts[0] != 0 || int(starts[s.N]) != T {
		panic(fmt.Sprintf("cpu: Attention: sequences are rows [%d, %d), expected [0, %d)", starts[0], starts[s.N], T))
	}
	a.spans, a.count = (*C.grpo_span)(b.shared(slotRows, s.N*C.sizeof_grpo_span)), C.int64_t(s.N)
	p.spans = unsafe.Slice(a.spans, s.N)
	var parents []C.int32_t
	if s.Parents != nil {
		parents = unsafe.Slice(b.i32(s.Parents), s.N)
	}
	for i := range p.spans {
		span := C.grpo_span{first: C.int64_t(starts[i]), length: C.int64_t(starts[i+1] - starts[i]), parent: -1}
		if span.length < 0 {
			panic(fmt.Sprintf("cpu: Attention: span %d is rows [%d, %d)", i, starts[i], starts[i+1]))
		}
		if parent := parentOf(parents, i); parent >= 0 {
			from := &p.spans[parent]
			span.base, span.slot, span.parent = from.base+from.length, from.slot+from.blocks, C.int64_t(parent)
			if from.length == 0 {
				span.parent = from.parent // every parent must have rows
			}
		}
		span.path, span.block = C.int64_t(p.entries), a.blocks
		if span.length > 0 {
			path := blocksOf(int(span.base+span.length), C.KEYS)
			span.blocks = C.int64_t(path) - span.base/C.KEYS
			p.entries += path
			a.longest = max(a.longest, C.int64_t(8*blocksOf(path, 8))) // rounded up to whole cache lines of pointers
			if span.parent < 0 {
				p.trees++
			}
		}
		a.blocks += span.blocks
		a.slots = max(a.slots, span.slot+span.blocks)
		p.spans[i] = span
	}
	return p
}

// parentOf is the span that span i continues, or −1.
func parentOf(parents []C.int32_t, i int) int {
	if parents == nil {
		return -1
	}
	at := i - 1
	for at >= 0 && at > int(parents[i]) {
		at = int(parents[at])
	}
	if at != int(parents[i]) {
		panic(fmt.Sprintf("cpu: Attention: span %d goes on from %d, expected the one before it, what that one goes on from, or -1",
			i, parents[i]))
	}
	return at
}

// packAttention packs keys and values into blocks, rounded if they are bf16. Gradients need both the keys and their transpose, and the
// transpose of the values.
func (b *backend) packAttention(a *C.grpo_attention, h kernels.Heads, kv kernels.DType, p attentionPlan, both bool) {
	if kv == kernels.BF16 {
		a.rounds = 1
	}
	a.block_floats = C.int64_t(C.KEYS * (h.Dim + padded(h.Dim)))
	if both {
		a.both, a.block_floats = 1, a.block_floats+C.int64_t(C.KEYS*h.Dim)
	}
	if b.attendsInTiles(kv) {
		a.in_tiles, a.block_floats = 1, a.block_floats/2
	}
	a.packed = (*C.float)(b.shared(slotBlocks, 4*int(a.blocks*a.block_floats)*h.KV))
	b.scratch(4 * 3 * C.KEYS * h.Dim)
	b.run(b.ops.attention_pack, len(p.spans)*h.KV, 1)
}
