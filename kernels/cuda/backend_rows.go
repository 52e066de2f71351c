//go:build gpu

package cuda

import (
	"github.com/seed-7879b91d/grpo/kernels"
)

// The number of rows that a block sums, of columns and of heads; column_sums.cu and qk_norm_rope.cu have the same constants.
const (
	rowChunk  = 64
	headChunk = 16
)

// Embed gathers rows of a table.
func (b *Backend) Embed(out kernels.Buffer, table kernels.Matrix, ids kernels.Buffer, T int) {
	m := ownMatrix(table)
	if m.codes.values != 0 {
		b.gatherCodes(at(out), m, at(ids), T)
		return
	}
	name := "gather"
	if m.t != kernels.F32 {
		name = "gather_bf16"
	}
	b.launch(name, dims{X: T}, at(out), address(m.memory.At), at(ids), i64(m.cols))
}

// EmbedGrad adds each row of dOut to the row of dTable that its id names. It first sorts the rows by id, so that the rows of an id are
// added in a fixed order, by a radix sort with 8 bits per pass.
func (b *Backend) EmbedGrad(dTable, dOut, ids kernels.Buffer, V, H, T int) {
	var sorted, before, other ptr
	if !b.scratchParts(scratchPart{&sorted, 4 * T}, scratchPart{&other, 4 * T}) {
		return
	}
	for shift := 0; shift == 0 || (V-1)>>shift > 0; shift += 8 {
		b.launch("sort_rows", dims{X: 1}, address(sorted), address(before), at(ids), i64(shift), i64(T))
		before, sorted, other = sorted, other, sorted
	}
	b.launch("embed_grad", dims{X: T}.By(H, threads), at(dTable), at(dOut), at(ids), address(before), i64(H), i64(T))
}

// Gather gathers rows of x.
func (b *Backend) Gather(out, x, rows kernels.Buffer, width, n int) {
	b.launch("gather", dims{X: n}, at(out), at(x), at(rows), i64(width))
}

// RMSNorm normalises rows.
func (b *Backend) RMSNorm(out, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	b.launch(variantFor("rms_norm", x), dims{X: T}, at(out), at(x), at(weight), f32(n.Eps), f32(0-n.Offset), i64(H))
}

// RMSNormGradX is the gradient with respect to x.
func (b *Backend) RMSNormGradX(dx, dy, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	b.launch(variantFor("rms_norm_grad_x", x), dims{X: T}, at(dx), at(dy), at(x), at(weight), f32(n.Eps), f32(0-n.Offset), i64(H))
}

// RMSNormGradW adds the gradient of the weight.
func (b *Backend) RMSNormGradW(dw, dy, x kernels.Buffer, n kernels.Norm, H, T int) {
	chunks := blocks(T, rowChunk)
	scratch, ok := b.scratchFor(4 * (T + chunks.X*H))
	if !ok {
		return
	}
	scales, sums := address(scratch), address(scratch+ptr(4*T))
	b.launch("row_scales", dims{X: T}, scales, at(x), f32(n.Eps), i64(H))
	b.launch("sum_scaled_products", chunks.By(H, threads), sums, at(dy), at(x), scales, i64(H), i64(T))
	b.launch("add_chunks", blocks(H, threads), at(dw), sums, i64(H), i64(H), i64(chunks.X))
}

// BiasGrad adds the sum of the rows.
func (b *Backend) BiasGrad(db kernels.Buffer, dy kernels.Cols, T int) {
	chunks := blocks(T, rowChunk)
	scratch, ok := b.scratchFor(4 * chunks.X * dy.N)
	if !ok {
		return
	}
	sums, from := address(scratch), address(own(dy.Buf).at+ptr(4*dy.From))
	b.launch("sum_rows", chunks.By(dy.N, threads), sums, from, i64(dy.Stride), i64(dy.N), i64(T))
	b.launch("add_chunks", blocks(dy.N, threads), at(db), sums, i64(dy.N), i64(dy.N), i64(chunks.X))
}

// SwiGLU is the gated activation of the MLP.
func (b *Backend) SwiGLU(out, gateUp kernels.Buffer, N, T int) {
	b.launch(variantFor("swiglu", gateUp), dims{X: T}.By(N, 4*threads), at(out), at(gateUp), i64(N))
}

// SwiGLUGrad is the gradient of SwiGLU.
func (b *Backend) SwiGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	b.launch(variantFor("swiglu_grad", gateUp), dims{X: T}.By(N, 4*threads), at(dGateUp), at(dout), at(gateUp), i64(N))
}

// GeGLU is the gated activation with GELU.
func (b *Backend) GeGLU(out, gateUp kernels.Buffer, N, T int) {
	b.launch(variantFor("geglu", gateUp), dims{X: T}.By(N, 4*threads), at(out), at(gateUp), i64(N))
}

// GeGLUGrad is the gradient of GeGLU.
func (b *Backend) GeGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	b.launch(variantFor("geglu_grad", gateUp), dims{X: T}.By(N, 4*threads), at(dGateUp), at(dout), at(gateUp), i64(N))
}

// Scale multiplies numbers.
func (b *Backend) Scale(out, x kernels.Buffer, by float32, n int) {
	b.launch("scale", gridOfFours(n), at(out), at(x), f32(by), i64(n))
}

// Add adds numbers.
func (b *Backend) Add(out, x, y kernels.Buffer, n int) {
	b.launch("add", gridOfFours(n), at(out), at(x), at(y), i64(n))
}

// RopeTable computes cosines and sines.
func (b *Backend) RopeTable(out, positions, frequencies kernels.Buffer, scale float64, dim, T int) {
	pairs := T * dim / 2
	b.launch("rope_table", blocks(pairs, threads), at(out), at(positions), at(frequencies), f64(scale), i64(dim/2), i64(pairs))
}

// Rope rotates queries and keys.
func (b *Backend) Rope(out, x, rope kernels.Buffer, back bool, h kernels.Attn, T int) {
	turn := i64(map[bool]int{true: 1}[back])
	b.launch(variantFor("rope", x), perHead(h.Heads, T), at(out), at(x), at(rope), turn, i64(h.Q), i64(h.KV), i64(h.Dim), i64(T))
}

// perHead is a grid with one warp for each head of T rows.
func perHead(h kernels.Heads, T int) dims { return blocks((h.Q+2*h.KV)*T, threads/32) }

// QKNormRope normalises and rotates queries and keys.
func (b *Backend) QKNormRope(out, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Attn, T int) {
	b.launch(variantFor("qk_norm_rope", qkv), perHead(h.Heads, T), at(out), at(qkv), at(qw), at(kw), at(rope), f32(eps), i64(h.Q), i64(h.KV),
		i64(h.Dim), i64(T))
}

// QKNormRopeGradX is the gradient with respect to qkv.
func (b *Backend) QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	b.launch(variantFor("qk_norm_rope_grad_x", qkv), perHead(h, T), at(dqkv), at(dout), at(qkv), at(qw), at(kw), at(rope), f32(eps),
		i64(h.Q), i64(h.KV), i64(h.Dim), i64(T))
}

// QKNormRopeGradW adds the gradients of both weights.
func (b *Backend) QKNormRopeGradW(dqw, dkw, dout, qkv, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	heads, chunks := h.Q+2*h.KV, blocks(T, headChunk)
	scratch, ok := b.scratchFor(4 * (heads*T + chunks.X*2*h.Dim))
	if !ok {
		return
	}
	scales, ofQueries := scratch, scratch+ptr(4*heads*T)
	ofKeys := ofQueries + ptr(4*h.Dim)
	b.launch("head_scales", perHead(h, T), address(scales), at(qkv), f32(eps), i64(heads), i64(h.Dim), i64(T))
	b.launch("sum_turned_products", chunks.By(2*h.Dim, threads), address(ofQueries), at(dout), at(qkv), at(rope), address(scales),
		i64(h.Q), i64(h.KV), i64(h.Dim), i64(T))
	b.launch("add_chunks", blocks(h.Dim, threads), at(dqw), address(ofQueries), i64(2*h.Dim), i64(h.Dim), i64(chunks.X))
	b.launch("add_chunks", blocks(h.Dim, threads), at(dkw), address(ofKeys), i64(2*h.Dim), i64(h.Dim), i64(chunks.X))
}
