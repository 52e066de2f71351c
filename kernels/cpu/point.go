package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// rowGrain is how many rows of n numbers make a run that is worth handing out.
func rowGrain(n int) int { return 1 + 8192/n }

func (b *Backend) Embed(out kernels.Buffer, table kernels.Matrix, ids kernels.Buffer, T int) {
	kernels.CheckEmbed(out, table, ids, T)
	defer b.release()
	H, V := table.Cols(), table.Rows()
	a := args[C.grpo_embed](b)
	a.out, a.m, a.ids = b.f32("Embed: out", out, T*H), b.matrix("Embed: table", table), b.i32("Embed: ids", ids, T)
	checkIDs("Embed", a.ids, V, T)
	b.run(b.ops.embed, T, rowGrain(H))
}

func (b *Backend) EmbedGrad(dTable, dOut, ids kernels.Buffer, V, H, T int) {
	kernels.CheckEmbedGrad(dTable, dOut, ids, V, H, T)
	defer b.release()
	a := args[C.grpo_embed_grad](b)
	a.d_table, a.d_out = b.f32("EmbedGrad: dTable", dTable, V*H), b.f32("EmbedGrad: dOut", dOut, T*H)
	a.ids, a.rows, a.cols = b.i32("EmbedGrad: ids", ids, T), C.int64_t(T), C.int64_t(H)
	checkIDs("EmbedGrad", a.ids, V, T)
	b.run(b.ops.embed_grad, blocksOf(H, C.SUM_COLUMNS), 1)
}

// checkIDs panics where C would read beyond the table.
func checkIDs(op string, ids *C.int32_t, V, T int) {
	for t, id := range unsafe.Slice(ids, T) {
		if id < 0 || int(id) >= V {
			panic(fmt.Sprintf("cpu: %s: row %d asks for id %d of a table of %d", op, t, id, V))
		}
	}
}

func blocksOf(n, size int) int { return (n + size - 1) / size }

func (b *Backend) RMSNorm(out, x, weight kernels.Buffer, eps float32, H, T int) {
	kernels.CheckRMSNorm(out, x, weight, H, T)
	defer b.release()
	a := args[C.grpo_rms_norm](b)
	a.out, a.x = b.f32("RMSNorm: out", out, T*H), b.f32("RMSNorm: x", x, T*H)
	a.weight, a.eps, a.cols = b.f32("RMSNorm: weight", weight, H), C.float(eps), C.int64_t(H)
	b.run(b.ops.rms_norm, T, rowGrain(H))
}

func (b *Backend) RMSNormGradX(dx, dy, x, weight kernels.Buffer, eps float32, H, T int) {
	kernels.CheckRMSNormGradX(dx, dy, x, weight, H, T)
	defer b.release()
	a := args[C.grpo_rms_norm_grad_x](b)
	a.out, a.dy = b.f32("RMSNormGradX: dx", dx, T*H), b.f32("RMSNormGradX: dy", dy, T*H)
	a.x, a.weight = b.f32("RMSNormGradX: x", x, T*H), b.f32("RMSNormGradX: weight", weight, H)
	a.eps, a.cols = C.float(eps), C.int64_t(H)
	b.run(b.ops.rms_norm_grad_x, T, rowGrain(H))
}

func (b *Backend) RMSNormGradW(dw, dy, x kernels.Buffer, eps float32, H, T int) {
	kernels.CheckRMSNormGradW(dw, dy, x, H, T)
	defer b.release()
	X := b.f32("RMSNormGradW: x", x, T*H)
	inverse := b.inverseRMS(X, eps, H, 1, H, T)
	a := args[C.grpo_rms_norm_grad_w](b)
	a.dw, a.dy = b.f32("RMSNormGradW: dw", dw, H), b.f32("RMSNormGradW: dy", dy, T*H)
	a.x, a.inverse, a.rows, a.cols = X, inverse, C.int64_t(T), C.int64_t(H)
	b.run(b.ops.rms_norm_grad_w, blocksOf(H, C.SUM_COLUMNS), 1)
}

// inverseRMS gives [T, heads] factors, in memory that lasts until the end of the operation.
func (b *Backend) inverseRMS(x *C.float, eps float32, stride, heads, n, T int) *C.float {
	a := args[C.grpo_inverse_rms](b)
	a.out, a.x, a.eps = (*C.float)(b.shared(slotRows, 4*T*heads)), x, C.float(eps)
	a.stride, a.heads, a.cols = C.int64_t(stride), C.int64_t(heads), C.int64_t(n)
	out := a.out
	b.run(b.ops.inverse_rms, T, rowGrain(stride))
	return out
}

// RopeTable is small and made once for a batch: plain Go in double precision.
func (b *Backend) RopeTable(out, positions kernels.Buffer, theta float64, dim, T int) {
	kernels.CheckRopeTable(out, positions, dim, T)
	defer b.release()
	table := unsafe.Slice(b.f32("RopeTable: out", out, T*dim), T*dim)
	at := unsafe.Slice(b.i32("RopeTable: positions", positions, T), T)
	for i := range dim / 2 {
		frequency := math.Pow(theta, -2*float64(i)/float64(dim))
		for t, position := range at {
			sin, cos := math.Sincos(float64(position) * frequency)
			table[t*dim+i], table[t*dim+dim/2+i] = C.float(cos), C.float(sin)
		}
	}
}

func (b *Backend) QKNormRope(out, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	kernels.CheckQKNormRope(out, qkv, qw, kw, rope, h, T)
	defer b.release()
	b.scratch(4 * h.Dim)
	a := args[C.grpo_qk_norm_rope](b)
	a.out, a.x = b.f32("QKNormRope: out", out, T*h.Width()), b.f32("QKNormRope: qkv", qkv, T*h.Width())
	a.qw, a.kw = b.f32("QKNormRope: qw", qw, h.Dim), b.f32("QKNormRope: kw", kw, h.Dim)
	a.rope, a.eps = b.f32("QKNormRope: rope", rope, T*h.Dim), C.float(eps)
	a.q_heads, a.kv_heads, a.dim = C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim)
	b.run(b.ops.qk_norm_rope, T, rowGrain(h.Width()))
}

func (b *Backend) QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	kernels.CheckQKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope, h, T)
	defer b.release()
	b.scratch(4 * h.Dim)
	a := args[C.grpo_qk_norm_rope_grad_x](b)
	a.out, a.dy = b.f32("QKNormRopeGradX: dqkv", dqkv, T*h.Width()), b.f32("QKNormRopeGradX: dout", dout, T*h.Width())
	a.x = b.f32("QKNormRopeGradX: qkv", qkv, T*h.Width())
	a.qw, a.kw = b.f32("QKNormRopeGradX: qw", qw, h.Dim), b.f32("QKNormRopeGradX: kw", kw, h.Dim)
	a.rope, a.eps = b.f32("QKNormRopeGradX: rope", rope, T*h.Dim), C.float(eps)
	a.q_heads, a.kv_heads, a.dim = C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim)
	b.run(b.ops.qk_norm_rope_grad_x, T, rowGrain(h.Width()))
}

func (b *Backend) QKNormRopeGradW(dqw, dkw, dout, qkv, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	kernels.CheckQKNormRopeGradW(dqw, dkw, dout, qkv, rope, h, T)
	defer b.release()
	x := b.f32("QKNormRopeGradW: qkv", qkv, T*h.Width())
	inverse := b.inverseRMS(x, eps, h.Width(), h.Q+h.KV, h.Dim, T)
	a := args[C.grpo_qk_norm_rope_grad_w](b)
	a.dqw, a.dkw = b.f32("QKNormRopeGradW: dqw", dqw, h.Dim), b.f32("QKNormRopeGradW: dkw", dkw, h.Dim)
	a.dy, a.x = b.f32("QKNormRopeGradW: dout", dout, T*h.Width()), x
	a.rope, a.inverse = b.f32("QKNormRopeGradW: rope", rope, T*h.Dim), inverse
	a.rows, a.q_heads, a.kv_heads, a.dim = C.int64_t(T), C.int64_t(h.Q), C.int64_t(h.KV), C.int64_t(h.Dim)
	b.run(b.ops.qk_norm_rope_grad_w, 2*blocksOf(h.Dim/2, C.ROPE_COLUMNS), 1)
}

func (b *Backend) SwiGLU(out, gateUp kernels.Buffer, N, T int) {
	kernels.CheckSwiGLU(out, gateUp, N, T)
	defer b.release()
	a := args[C.grpo_swiglu](b)
	a.out, a.x, a.cols = b.f32("SwiGLU: out", out, T*N), b.f32("SwiGLU: gateUp", gateUp, 2*T*N), C.int64_t(N)
	b.run(b.ops.swiglu, T, rowGrain(N))
}

func (b *Backend) SwiGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	kernels.CheckSwiGLUGrad(dGateUp, dout, gateUp, N, T)
	defer b.release()
	a := args[C.grpo_swiglu_grad](b)
	a.out, a.dy = b.f32("SwiGLUGrad: dGateUp", dGateUp, 2*T*N), b.f32("SwiGLUGrad: dout", dout, T*N)
	a.x, a.cols = b.f32("SwiGLUGrad: gateUp", gateUp, 2*T*N), C.int64_t(N)
	b.run(b.ops.swiglu_grad, T, rowGrain(N))
}

func (b *Backend) Add(out, x, y kernels.Buffer, n int) {
	kernels.CheckAdd(out, x, y, n)
	defer b.release()
	a := args[C.grpo_add](b)
	a.out, a.a, a.b = b.f32("Add: out", out, n), b.f32("Add: a", x, n), b.f32("Add: b", y, n)
	a.n = C.int64_t(n)
	b.run(b.ops.add, blocksOf(n, C.RUN), 1)
}
