// Operations over a warp, and every kind of memory.
#include "probe.h"

// Counts of the low six bits: in shared memory first, then for all blocks. The sums are integers: their order does not matter.
KERNEL THREADS(256) histogram(u32 *counts, const u32 *x, u32 n) {
	__shared__ u32 mine[64];
	if (thread() < 64)
		mine[thread()] = 0;
	barrier();
	for (u32 i = index(); i < n; i += threads() * __nvvm_read_ptx_sreg_nctaid_x())
		asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(shared_address(&mine[x[i] & 63])) : "memory");
	barrier();
	u32 before;
	if (thread() < 64)
		asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(counts + thread()), "r"(mine[thread()]) : "memory");
}

// The maximum by compare-and-swap, and by its own instruction.
KERNEL largest(u32 *out, const u32 *x) {
	u32 v = x[index()], old = 0, seen;
	do {
		seen = old;
		asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : "l"(out), "r"(seen), "r"(v > seen ? v : seen) : "memory");
	} while (old != seen);
	asm volatile("red.global.max.s32 [%0], %1;" ::"l"(out + 1), "r"(v) : "memory");
}

#define WARP(result, kind, ptx, ...) asm volatile(ptx : "=" kind(result) : __VA_ARGS__)

// Eleven results for each lane: shuffles, votes, reductions.
KERNEL votes(u32 *out, const u32 *x, u32 n) {
	u32 i = index(), v = x[i], r;
	out[i] = __nvvm_shfl_sync_up_i32(~0u, (int)v, 3, 0), out += n;
	out[i] = __nvvm_shfl_sync_down_i32(~0u, (int)v, 5, 31), out += n;
	out[i] = __nvvm_shfl_sync_idx_i32(~0u, (int)v, (int)(v & 31), 31), out += n;
	out[i] = __nvvm_shfl_sync_bfly_i32(~0u, (int)v, 9, 0x181f), out += n;
	out[i] = __nvvm_vote_ballot_sync(~0u, v & 1), out += n;
	out[i] = __nvvm_vote_any_sync(~0u, v % 64 == 5) | __nvvm_vote_all_sync(~0u, v % 64 != 7) << 1, out += n;
	WARP(r, "r", "redux.sync.add.u32 %0, %1, 0xffffffff;", "r"(v));
	out[i] = r, out += n;
	WARP(r, "r", "redux.sync.min.s32 %0, %1, 0xffffffff;", "r"(v));
	out[i] = r, out += n;
	WARP(r, "r", "match.any.sync.b32 %0, %1, 0xffffffff;", "r"(v & 7));
	out[i] = r, out += n;
	if (v & 1) // the active lanes
		WARP(r, "r", "{.reg .b32 here; activemask.b32 here; redux.sync.xor.b32 %0, %1, here;}", "r"(v));
	else
		WARP(r, "r", "mov.u32 %0, %%lanemask_lt;", "r"(v));
	out[i] = r, out += n;
	out[i] = __nvvm_read_ptx_sreg_laneid() + 100 * __nvvm_read_ptx_sreg_ntid_y() + 1000 * __nvvm_read_ptx_sreg_tid_y();
}

__attribute__((constant)) u32 table[4] = {2, 3, 5, 7};
__device__ u32 offset = 11;

struct alignas(8) Pair { u32 a, b; };
struct alignas(16) Quad { u32 a, b, c, d; };

// Bytes, 16-bit numbers, vectors; a constant table; an array too large for registers; a generic pointer to either space.
KERNEL THREADS(64) memories(u32 *out, const unsigned char *x, u32 n) {
	__shared__ u32 shared[64];
	u32 t = thread(), local[16];
	for (u32 k = 0; k < 16; k++)
		local[k] = x[t] + k;
	for (u32 k = 0; k < n; k++)
		local[x[k] & 15] += k;
	shared[t] = local[t & 15] + ((const signed char *)x)[t] + ((const short *)x)[t] + table[t & 3] + offset;
	Pair p = ((const Pair *)x)[t];
	Quad q = ((const Quad *)x)[t];
	barrier();
	const u32 *either = n & 1 ? shared : (const u32 *)x;
	out[t] = either[63 - t] + p.a + 3 * p.b + 5 * q.a + 7 * q.b + 11 * q.c + 13 * q.d;
}

// cp.async of all sizes, padded with zeros; dynamic shared memory.
KERNEL THREADS(32) arrivals(u32 *out, const u32 *x) {
	extern __shared__ __attribute__((aligned(16))) u32 place[];
	u32 t = thread(), *mine = place + 8 * t;
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(mine)), "l"(x + 8 * t) : "memory");
	commit();
	asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(mine + 2)), "l"(x + 8 * t + 2), "r"(t % 9) : "memory");
	commit();
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(mine + 4)), "l"(x + 8 * t + 4), "r"(t % 17) : "memory");
	wait<1>();
	out[8 * t] = mine[0];
	asm volatile("cp.async.wait_all;" ::: "memory");
	for (u32 k = 2; k < 8; k++)
		out[8 * t + k] = mine[k];
	out[8 * t + 1] = 0;
}

// A tile of 8 × 8 numbers of 16 bits as one, two and four matrices, and transposed.
KERNEL THREADS(32) tiles(u32 *out, const u16 *x) {
	__shared__ __attribute__((aligned(16))) u16 all[32 * 8];
	u32 t = thread(), r[4];
	for (u32 k = 0; k < 8; k++)
		all[t * 8 + k] = x[t * 8 + k];
	barrier();
	u32 row = shared_address(all + t * 8);
	asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(row));
	out[t] = r[0];
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(row));
	out[32 + t] = r[0], out[64 + t] = r[1];
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row));
	for (u32 k = 0; k < 4; k++)
		out[96 + 32 * k + t] = r[k];
}

// One product of 16 × 8 and 8 × 8.
KERNEL THREADS(32) small_product(float *out, const u32 *a, const u32 *b) {
	u32 t = thread();
	float c[4] = {1, 2, 3, 4};
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[t]), "r"(a[32 + t]), "r"(b[t]));
	for (u32 k = 0; k < 4; k++)
		out[4 * t + k] = c[k];
}
