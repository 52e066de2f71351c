//go:build gpu

package cuda

import (
	"github.com/seed-7879b91d/grpo/kernels"
)

// Rows that a block of a kernel adds up: column_sums.cu and qk_norm_rope.cu have the same numbers.
const (
	rowChunk  = 64
	headChunk = 16
)

// Embed gives the rows of a table.
func (b *Backend) Embed(out kernels.Buffer, table kernels.Matrix, ids kernels.Buffer, T int) {
	m := ownMatrix(table)
	name := "gather"
	if m.t != kernels.F32 {
		name = "gather_bf16"
	}
	b.launch(name, Dim{X: T}, at(out), Address(m.memory.At), at(ids), Int(m.cols))
}

// EmbedGrad adds rows to those of a table, in the order of their ids, for which it brings them by 8 bits of the ids at a time.
func (b *Backend) EmbedGrad(dTable, dOut, ids kernels.Buffer, V, H, T int) {
	var sorted, before, other Ptr
	if !b.divide(part{&sorted, 4 * T}, part{&other, 4 * T}) {
		return
	}
	for shift := 0; shift == 0 || (V-1)>>shift > 0; shift += 8 {
		b.launch("sort_rows", Dim{X: 1}, Address(sorted), Address(before), at(ids), Int(shift), Int(T))
		before, sorted, other = sorted, other, sorted
	}
	b.launch("embed_grad", Dim{X: T}.by(H, threads), at(dTable), at(dOut), at(ids), Address(before), Int(H), Int(T))
}

// Gather gives rows of x.
func (b *Backend) Gather(out, x, rows kernels.Buffer, width, n int) {
	b.launch("gather", Dim{X: n}, at(out), at(x), at(rows), Int(width))
}

// RMSNorm normalises rows.
func (b *Backend) RMSNorm(out, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	b.launch("rms_norm", Dim{X: T}, at(out), at(x), at(weight), Float(n.Eps), Float(0-n.Offset), Int(H))
}

// RMSNormGradX is the gradient to x.
func (b *Backend) RMSNormGradX(dx, dy, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	b.launch("rms_norm_grad_x", Dim{X: T}, at(dx), at(dy), at(x), at(weight), Float(n.Eps), Float(0-n.Offset), Int(H))
}

// RMSNormGradW adds the gradient to the weight.
func (b *Backend) RMSNormGradW(dw, dy, x kernels.Buffer, n kernels.Norm, H, T int) {
	chunks := blocks(T, rowChunk)
	scratch, ok := b.between(4 * (T + chunks.X*H))
	if !ok {
		return
	}
	scales, sums := Address(scratch), Address(scratch+Ptr(4*T))
	b.launch("row_scales", Dim{X: T}, scales, at(x), Float(n.Eps), Int(H))
	b.launch("sum_scaled_products", chunks.by(H, threads), sums, at(dy), at(x), scales, Int(H), Int(T))
	b.launch("add_chunks", blocks(H, threads), at(dw), sums, Int(H), Int(H), Int(chunks.X))
}

// BiasGrad adds rows up.
func (b *Backend) BiasGrad(db kernels.Buffer, dy kernels.Cols, T int) {
	chunks := blocks(T, rowChunk)
	scratch, ok := b.between(4 * chunks.X * dy.N)
	if !ok {
		return
	}
	sums, from := Address(scratch), Address(own(dy.Buf).at+Ptr(4*dy.From))
	b.launch("sum_rows", chunks.by(dy.N, threads), sums, from, Int(dy.Stride), Int(dy.N), Int(T))
	b.launch("add_chunks", blocks(dy.N, threads), at(db), sums, Int(dy.N), Int(dy.N), Int(chunks.X))
}

// SwiGLU is the gate of a block.
func (b *Backend) SwiGLU(out, gateUp kernels.Buffer, N, T int) {
	b.launch("swiglu", Dim{X: T}.by(N, 4*threads), at(out), at(gateUp), Int(N))
}

// SwiGLUGrad is its gradient.
func (b *Backend) SwiGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	b.launch("swiglu_grad", Dim{X: T}.by(N, 4*threads), at(dGateUp), at(dout), at(gateUp), Int(N))
}

// GeGLU is the gate of a block in another form.
func (b *Backend) GeGLU(out, gateUp kernels.Buffer, N, T int) {
	b.launch("geglu", Dim{X: T}.by(N, 4*threads), at(out), at(gateUp), Int(N))
}

// GeGLUGrad is its gradient.
func (b *Backend) GeGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	b.launch("geglu_grad", Dim{X: T}.by(N, 4*threads), at(dGateUp), at(dout), at(gateUp), Int(N))
}

// Scale multiplies numbers.
func (b *Backend) Scale(out, x kernels.Buffer, by float32, n int) {
	b.launch("scale", fours(n), at(out), at(x), Float(by), Int(n))
}

// Add adds numbers.
func (b *Backend) Add(out, x, y kernels.Buffer, n int) {
	b.launch("add", fours(n), at(out), at(x), at(y), Int(n))
}

// RopeTable gives cosines and sines.
func (b *Backend) RopeTable(out, positions, frequencies kernels.Buffer, scale float64, dim, T int) {
	pairs := T * dim / 2
	b.launch("rope_table", blocks(pairs, threads), at(out), at(positions), at(frequencies), Double(scale), Int(dim/2), Int(pairs))
}

// Rope rotates queries and keys.
func (b *Backend) Rope(out, x, rope kernels.Buffer, back bool, h kernels.Heads, T int) {
	turn := Int(map[bool]int{true: 1}[back])
	b.launch("rope", perHead(h, T), at(out), at(x), at(rope), turn, Int(h.Q), Int(h.KV), Int(h.Dim), Int(T))
}

// perHead is a warp for each head of T rows.
func perHead(h kernels.Heads, T int) Dim { return blocks((h.Q+2*h.KV)*T, threads/32) }

// QKNormRope normalises and rotates queries and keys.
func (b *Backend) QKNormRope(out, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	b.launch("qk_norm_rope", perHead(h, T), at(out), at(qkv), at(qw), at(kw), at(rope), Float(eps), Int(h.Q), Int(h.KV), Int(h.Dim), Int(T))
}

// QKNormRopeGradX is the gradient to qkv.
func (b *Backend) QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	b.launch("qk_norm_rope_grad_x", perHead(h, T), at(dqkv), at(dout), at(qkv), at(qw), at(kw), at(rope), Float(eps), Int(h.Q),
		Int(h.KV), Int(h.Dim), Int(T))
}

// QKNormRopeGradW adds the gradients to both weights.
func (b *Backend) QKNormRopeGradW(dqw, dkw, dout, qkv, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	heads, chunks := h.Q+2*h.KV, blocks(T, headChunk)
	scratch, ok := b.between(4 * (heads*T + chunks.X*2*h.Dim))
	if !ok {
		return
	}
	scales, ofQueries := scratch, scratch+Ptr(4*heads*T)
	ofKeys := ofQueries + Ptr(4*h.Dim)
	b.launch("head_scales", perHead(h, T), Address(scales), at(qkv), Float(eps), Int(heads), Int(h.Dim), Int(T))
	b.launch("sum_turned_products", chunks.by(2*h.Dim, threads), Address(ofQueries), at(dout), at(qkv), at(rope), Address(scales),
		Int(h.Q), Int(h.KV), Int(h.Dim), Int(T))
	b.launch("add_chunks", blocks(h.Dim, threads), at(dqw), Address(ofQueries), Int(2*h.Dim), Int(h.Dim), Int(chunks.X))
	b.launch("add_chunks", blocks(h.Dim, threads), at(dkw), Address(ofKeys), Int(2*h.Dim), Int(h.Dim), Int(chunks.X))
}
