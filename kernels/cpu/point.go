package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// rowGrain is the least number of rows of n numbers that is worth a range of tasks.
func rowGrain(n int) int { return 1 + 8192/n }

func (b *backend) Embed(out kernels.Buffer, table kernels.Matrix, ids kernels.Buffer, T int) {
	defer b.release()
	H, V := table.Cols(), table.Rows()
	a := args[C.grpo_embed](b)
	a.out, a.m, a.ids = b.f32(out), b.matrix(table), b.i32(ids)
	checkIDs("Embed", a.ids, V, T)
	b.run(b.ops.embed, T, rowGrain(H))
}

func (b *backend) EmbedGrad(dTable, dOut, ids kernels.Buffer, V, H, T int) {
	defer b.release()
	a := args[C.grpo_embed_grad](b)
	a.d_table, a.d_out = b.f32(dTable), b.f32(dOut)
	a.ids, a.rows, a.cols = b.i32(ids), C.int64_t(T), C.int64_t(H)
	checkIDs("EmbedGrad", a.ids, V, T)
	b.run(b.ops.embed_grad, blocksOf(H, C.SUM_COLUMNS), 1)
}

// checkIDs panics on an id for which C would read beyond the table.
func checkIDs(op string, ids *C.int32_t, V, T int) {
	for t, id := range unsafe.Slice(ids, T) {
		if id < 0 || int(id) >= V {
			panic(fmt.Sprintf("cpu: %s: row %d asks for id %d of a table of %d", op, t, id, V))
		}
	}
}

func blocksOf(n, size int) int { return (n + size - 1) / size }

func (b *backend) RMSNorm(out, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	defer b.release()
	a := args[C.grpo_rms_norm](b)
	a.out, a.apart = b.resultRows(out, H, 0)
	a.x = b.f32(x)
	a.weight, a.eps, a.minus = b.f32(weight), C.float(n.Eps), C.float(0-n.Offset)
	a.cols = C.int64_t(H)
	b.run(b.ops.rms_norm, T, rowGrain(H))
}

func (b *backend) RMSNormGradX(dx, dy, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	defer b.release()
	a := args[C.grpo_rms_norm_grad_x](b)
	a.out, a.dy = b.f32(dx), b.f32(dy)
	a.x, a.weight = b.f32(x), b.f32(weight)
	a.eps, a.minus, a.cols = C.float(n.Eps), C.float(0-n.Offset), C.int64_t(H)
	b.run(b.ops.rms_norm_grad_x, T, rowGrain(H))
}

func (b *backend) RMSNormGradW(dw, dy, x kernels.Buffer, n kernels.Norm, H, T int) {
	defer b.release()
	X := b.f32(x)
	inverse := b.inverseRMS(X, n.Eps, H, 1, H, T)
	a := args[C.grpo_rms_norm_grad_w](b)
	a.dw, a.dy = b.f32(dw), b.f32(dy)
	a.x, a.inverse, a.rows, a.cols = X, inverse, C.int64_t(T), C.int64_t(H)
	b.run(b.ops.rms_norm_grad_w, blocksOf(H, C.SUM_COLUMNS), 1)
}

// inverseRMS computes factors [T, heads], in memory that lasts until the end of the operation.
func (b *backend) inverseRMS(x *C.float, eps float32, stride, heads, n, T int) *C.float {
	a := args[C.grpo_inverse_rms](b)
	a.out, a.x, a.eps = (*C.float)(b.shared(slotRows, 4*T*heads)), x, C.float(eps)
	a.stride, a.heads, a.cols = C.int64_t(stride), C.int64_t(heads), C.int64_t(n)
	out := a.out
	b.run(b.ops.inverse_rms, T, rowGrain(stride))
	return out
}

// RopeTable is plain Go in double precision: the table is small and made once per batch.
func (b *backend) RopeTable(out, positions, frequencies kernels.Buffer, scale float64, dim, T int) {
	defer b.release()
	table := unsafe.Slice(b.f32(out), T*dim)
	at := unsafe.Slice(b.i32(positions), T)
	for i, frequency := range unsafe.Slice(b.f64(frequencies), dim/2) {
		for t, position := range at {
			sin, cos := math.Sincos(float64(position) * float64(frequency))
			table[t*dim+i], table[t*dim+dim/2+i] = C.float(scale*cos), C.float(scale*sin)
		}
	}
}

// Rope rotates the heads of queries and keys.
func (b *backend) Rope(out, x, rope kernels.Buffer, back bool, h kernels.Attn, T int) {
	defer b.release()
	a := args[C.grpo_rope](b)
	a.out, a.apart, a.stream = b.streamedResultRows(out, h.Width(), 0, T)
	a.x, a.rope, a.scale = b.f32(x), b.f32(rope), C.float(h.Factor())
	a.q_heads, a.kv_heads, a.dim, a.back = C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim), C.int64_t(flag(back))
	b.run(b.ops.rope, T, rowGrain(h.Width()))
}

func (b *backend) QKNormRope(out, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Attn, T int) {
	defer b.release()
	a := args[C.grpo_qk_norm_rope](b)
	a.out, a.apart, a.stream = b.streamedResultRows(out, h.Width(), h.Dim, T)
	a.x = b.f32(qkv)
	a.qw, a.kw = b.f32(qw), b.f32(kw)
	a.rope, a.eps, a.scale = b.f32(rope), C.float(eps), C.float(h.Factor())
	a.q_heads, a.kv_heads, a.dim = C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim)
	b.run(b.ops.qk_norm_rope, T, rowGrain(h.Width()))
}

func (b *backend) QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	defer b.release()
	a := args[C.grpo_qk_norm_rope_grad_x](b)
	a.out, a.apart = b.resultRows(dqkv, h.Width(), h.Dim)
	a.dy, a.x = b.f32(dout), b.f32(qkv)
	a.qw, a.kw = b.f32(qw), b.f32(kw)
	a.rope, a.eps = b.f32(rope), C.float(eps)
	a.q_heads, a.kv_heads, a.dim = C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim)
	b.run(b.ops.qk_norm_rope_grad_x, T, rowGrain(h.Width()))
}

func (b *backend) QKNormRopeGradW(dqw, dkw, dout, qkv, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	defer b.release()
	x := b.f32(qkv)
	inverse := b.inverseRMS(x, eps, h.Width(), h.Q+h.KV, h.Dim, T)
	a := args[C.grpo_qk_norm_rope_grad_w](b)
	a.dqw, a.dkw = b.f32(dqw), b.f32(dkw)
	a.dy, a.x = b.f32(dout), x
	a.rope, a.inverse = b.f32(rope), inverse
	a.rows, a.q_heads, a.kv_heads, a.dim = C.int64_t(T), C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim)
	b.run(b.ops.qk_norm_rope_grad_w, 2*blocksOf(h.Dim/2, C.ROPE_COLUMNS), 1)
}

func (b *backend) SwiGLU(out, gateUp kernels.Buffer, N, T int) {
	defer b.release()
	a := args[C.grpo_swiglu](b)
	a.out, a.apart = b.resultRows(out, N, 0)
	a.x, a.cols = b.f32(gateUp), C.int64_t(N)
	b.run(b.ops.swiglu, T, rowGrain(N))
}

func (b *backend) SwiGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	defer b.release()
	a := args[C.grpo_swiglu_grad](b)
	a.out, a.apart = b.resultRows(dGateUp, 2*N, 0)
	a.dy, a.x, a.cols = b.f32(dout), b.f32(gateUp), C.int64_t(N)
	b.run(b.ops.swiglu_grad, T, rowGrain(N))
}

func (b *backend) GeGLU(out, gateUp kernels.Buffer, N, T int) {
	defer b.release()
	a := args[C.grpo_geglu](b)
	a.out, a.apart = b.resultRows(out, N, 0)
	a.x, a.cols = b.f32(gateUp), C.int64_t(N)
	b.run(b.ops.geglu, T, rowGrain(N))
}

func (b *backend) GeGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	defer b.release()
	a := args[C.grpo_geglu_grad](b)
	a.out, a.apart = b.resultRows(dGateUp, 2*N, 0)
	a.dy, a.x, a.cols = b.f32(dout), b.f32(gateUp), C.int64_t(N)
	b.run(b.ops.geglu_grad, T, rowGrain(N))
}

func (b *backend) Scale(out, x kernels.Buffer, by float32, n int) {
	defer b.release()
	a := args[C.grpo_scale](b)
	a.out, a.x, a.by = b.f32(out), b.f32(x), C.float(by)
	a.n = C.int64_t(n)
	b.run(b.ops.scale, blocksOf(n, C.RUN), 1)
}

func (b *backend) Add(out, x, y kernels.Buffer, n int) {
	defer b.release()
	a := args[C.grpo_add](b)
	a.out, a.a, a.b = b.f32(out), b.f32(x), b.f32(y)
	a.n = C.int64_t(n)
	b.run(b.ops.add, blocksOf(n, C.RUN), 1)
}
