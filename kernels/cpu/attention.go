package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Attention: first every sequence's keys and values are laid out in blocks, then tiles of queries read them.
func (b *backend) Attention(out, lse, qkv kernels.Buffer, s kernels.Spans, h kernels.Heads, kv kernels.DType, T int) {
	defer b.release()
	a := args[C.grpo_attention](b)
	a.out, a.lse = b.f32(out), b.f32(lse)
	a.qkv = b.f32(qkv)
	plan := b.planAttention(a, s, h, T)
	b.packAttention(a, h, kv, plan, false)

	a.spans, a.count = plan.tiles, C.int64_t(plan.tileCount)
	wide := padded(h.Dim)
	b.scratch(4 * (C.SOFTMAX_FLOATS + C.TILE_FORWARD*(h.Dim+wide)))
	b.run(b.ops.attention, plan.tileCount*h.KV, 1)
}

// AttentionGrad: a task has a sequence's key-value head to itself, from its first query to its last.
func (b *backend) AttentionGrad(dqkv, dout, qkv, out, lse kernels.Buffer, s kernels.Spans, h kernels.Heads, kv kernels.DType,
	T int) {
	defer b.release()
	a := args[C.grpo_attention](b)
	a.dqkv, a.dout = b.f32(dqkv), b.f32(dout)
	a.out, a.lse = b.f32(out), b.f32(lse)
	a.qkv = b.f32(qkv)
	plan := b.planAttention(a, s, h, T)
	b.packAttention(a, h, kv, plan, true)

	wide := padded(h.Dim)
	tile := C.TILE_BACKWARD * (4 + 2*C.KEYS + 2*h.Dim + 3*wide)
	b.scratch(4 * (tile + 2*padded(plan.longest)*wide))
	b.run(b.ops.attention_grad, s.N*h.KV, 1)
}

// padded is the number of columns that a row of dim numbers takes in a block.
func padded(dim int) int { return blocksOf(dim, C.KEYS) * C.KEYS }

// attentionPlan says how a batch is cut: its sequences, their blocks of keys, and tiles of queries.
type attentionPlan struct {
	tiles     *C.grpo_span
	tileCount int
	blocks    int
	longest   int // rows of a sequence
}

// planAttention reads where sequences start and gives the kernels their shape and the sequences.
func (b *backend) planAttention(a *C.grpo_attention, s kernels.Spans, h kernels.Heads, T int) attentionPlan {
	starts := unsafe.Slice(b.i32(s.Starts), s.N+1)
	var p attentionPlan
	group := h.Q / h.KV
	for i := range s.N {
		n := int(starts[i+1]) - int(starts[i])
		if n < 0 {
			panic(fmt.Sprintf("cpu: Attention: sequence %d is rows [%d, %d)", i, starts[i], starts[i+1]))
		}
		p.longest = max(p.longest, n)
		p.blocks += blocksOf(n, C.KEYS)
		p.tileCount += blocksOf(n*group, C.TILE_FORWARD)
	}
	if starts[0] != 0 || int(starts[s.N]) != T {
		panic(fmt.Sprintf("cpu: Attention: sequences are rows [%d, %d), expected [0, %d)", starts[0], starts[s.N], T))
	}
	spans := (*C.grpo_span)(b.shared(slotRows, (s.N+p.tileCount)*C.sizeof_grpo_span))
	all := unsafe.Slice(spans, s.N+p.tileCount)
	tile, block := s.N, 0
	for i := range s.N {
		n := int(starts[i+1]) - int(starts[i])
		all[i] = C.grpo_span{first: C.int64_t(starts[i]), length: C.int64_t(n), block: C.int64_t(block)}
		for start := 0; start < n*group; start += C.TILE_FORWARD {
			all[tile] = all[i]
			all[tile].start = C.int64_t(start)
			tile++
		}
		block += blocksOf(n, C.KEYS)
	}
	a.q_heads, a.kv_heads, a.dim = C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim)
	a.spans, a.count, a.blocks = spans, C.int64_t(s.N), C.int64_t(p.blocks)
	p.tiles = (*C.grpo_span)(unsafe.Add(unsafe.Pointer(spans), s.N*C.sizeof_grpo_span))
	return p
}

// packAttention lays keys and values out, rounded where they are bf16; gradients want each of them both ways.
func (b *backend) packAttention(a *C.grpo_attention, h kernels.Heads, kv kernels.DType, p attentionPlan, both bool) {
	if kv == kernels.BF16 {
		a.rounds = 1
	}
	tables, wide := 2, padded(h.Dim)
	if both {
		tables = 4
	}
	blocks := p.blocks * h.KV
	floats := C.KEYS * (h.Dim + wide) * tables / 2
	const pointer = int(unsafe.Sizeof(uintptr(0)))
	memory := b.shared(slotBlocks, blocks*(4*floats+tables*pointer))
	table := func(i int) **C.float { return (**C.float)(unsafe.Add(memory, blocks*(4*floats+i*pointer))) }
	a.packed, a.keys_transposed, a.values = (*C.float)(memory), table(0), table(1)
	if both {
		a.values_transposed, a.keys = table(2), table(3)
	}
	b.run(b.ops.attention_pack, int(a.count)*h.KV, 1)
}
