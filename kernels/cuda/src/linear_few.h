// Products of so few rows that reading the weights is all the work: decoding. Results are those of linear_tensor.h, to the bit.
//
// What makes the speed: a warp has 8 or 16 outputs and the whole inner size of them, a ring of weights of its own, and waits for nobody
// else; rows come from memory straight to registers, a stage ahead, since all blocks read the same few and the caches have them. While the
// products of a stage wait for each other, which is what a chain is, the warp asks for what comes next.
#pragma once
#include "linear_tensor.h"

DEVICE void warp_barrier() { asm volatile("bar.warp.sync -1;" ::: "memory"); }

// A product where it stands: what a warp asks for in between would be moved before all of them otherwise, and wait in registers.
DEVICE void multiply_here(float *c, const u32 *a, const u32 *b) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// What a warp has: up to 8 · tall rows and 8 · wide outputs, in steps of deep of the inner size, of which stages are under way.
template <u32 tall_, u32 wide_, u32 warps_, u32 deep_, u32 stages_> struct Strand {
	static constexpr u32 tall = tall_, wide = wide_, warps = warps_, deep = deep_, stages = stages_, threads = 32 * warps, steps = deep / 16,
		outputs = 8 * wide, bytes = outputs * deep * 2, chunks = deep / 8, each = 32 / chunks;
	static_assert(bytes * stages * warps <= 99 << 10 && (deep == 64 || deep == 128));
	typedef u32 Weights[wide][steps][2];
};
typedef float Pair __attribute__((ext_vector_type(2)));

// Where 16 bytes of an output are in a stage: those of 8 outputs in different banks.
template <u32 deep> DEVICE u32 turned(u32 output, u32 chunk) { return output * deep * 2 + (chunk ^ output % 8) * 16; }

// The weights of a warp.
template <typename S> struct Ring {
	const u16 *from; // what this lane brings
	u32 stride, left; // outputs from its first one on
	u32 lane;

	MEMBER void fetch(u32 to, u32 k) const {
		u32 apart = stride;
		asm volatile("" : "+r"(apart)); // the addresses would be kept in registers otherwise
		const u16 *at = from + k;
		UNROLL for (u32 i = 0; i < S::outputs; i += S::each, at += (u64)S::each * apart)
			copy16(to + turned<S::deep>(lane / S::chunks + i, lane % S::chunks), at, i < left ? 16 : 0);
	}
	MEMBER void take(typename S::Weights b, u32 stage) const {
		UNROLL for (u32 j = 0; j < S::wide; j++)
			UNROLL for (u32 d = 0; d < S::steps; d += 2)
				load_matrices(b[j][d], stage + (turned<S::deep>(j * 8 + lane % 8, lane / 8) ^ d * 32));
	}
};

// The rows of a block. Behind the last one it is read once more, and what comes of it is not written.
template <typename S> struct Few {
	const float *at[S::tall];

	MEMBER void read(Pair (*v)[2][S::tall], u32 k) const {
		UNROLL for (u32 d = 0; d < S::steps; d++)
			UNROLL for (u32 half = 0; half < 2; half++)
				UNROLL for (u32 i = 0; i < S::tall; i++)
					v[d][half][i] = *(const Pair *)(at[i] + k + d * 16 + half * 8);
	}
	static MEMBER void round(u32 (*a)[4], const Pair (*v)[2][S::tall]) {
		UNROLL for (u32 d = 0; d < S::steps; d++)
			UNROLL for (u32 n = 0; n < 4; n++)
				a[d][n] = n % 2 < S::tall ? rounded(v[d][n / 2][n % 2 % S::tall][0], v[d][n / 2][n % 2 % S::tall][1]) : 0;
	}
};

// strand: 8 · wide columns of result [rows, outer] = x [rows, inner] · wᵀ, w [outer, inner], for each warp. The inner size is a multiple
// of deep, rows of x begin at multiples of 8 bytes and those of w at multiples of 16.
template <typename S> DEVICE void strand(const Result &result, Rows<float> x, Rows<u16> w, u32 rows, u32 outer, u32 inner) {
	extern __shared__ __attribute__((aligned(128))) unsigned char ring[];
	u32 lane = thread() % 32, warp = thread() / 32, first = (block_x() * S::warps + warp) * S::outputs + lane / S::chunks;
	Ring<S> weights = {w.at + (u64)first * w.stride + lane % S::chunks * 8, w.stride, first < outer ? outer - first : 0, lane};
	Few<S> few;
	UNROLL for (u32 i = 0; i < S::tall; i++)
		few.at[i] = x.at + (u64)smaller(lane / 4 + i * 8, rows - 1) * x.stride + lane % 4 * 2;
	u32 now = shared_address(ring) + warp * S::stages * S::bytes, begin = now, end = now + S::stages * S::bytes;
	ROLLED for (u32 s = 0; s < S::stages; s++) {
		if (s * S::deep < inner)
			weights.fetch(begin + s * S::bytes, s * S::deep);
		commit();
	}
	Pair v[S::steps][2][S::tall];
	few.read(v, 0);
	wait<S::stages - 1>();
	warp_barrier();
	typename S::Weights b, next;
	weights.take(b, now);
	float sum[S::wide][4] = {};
	ROLLED for (u32 k = 0; k < inner; k += S::deep) {
		u32 a[S::steps][4];
		few.round(a, v);
		bool more = k + S::deep < inner; // else what is there is read once more
		u32 then = !more ? now : now + S::bytes == end ? begin : now + S::bytes;
		UNROLL for (u32 d = 0; d < S::steps; d++) {
			UNROLL for (u32 j = 0; j < S::wide; j++)
				multiply_here(sum[j], a[d], b[j][d]);
			if (d == 0) {
				wait<S::stages - 2>();
				warp_barrier();
				weights.take(next, then);
			}
			if (d == 1)
				few.read(v, more ? k + S::deep : k);
			if (d == 2) { // the whole warp has taken this stage, a stage ago
				if (k + S::stages * S::deep < inner)
					weights.fetch(now, k + S::stages * S::deep);
				commit();
			}
		}
		now = then;
		__builtin_memcpy(b, next, sizeof b);
	}
	u32 row = thread_here() % 32 / 4, column = (block_x_here() * S::warps + thread_here() / 32) * S::outputs + thread_here() % 4 * 2;
	UNROLL for (u32 j = 0; j < S::wide; j++)
		UNROLL for (u32 n = 0; n < 2 * S::tall; n++)
			if (row + n / 2 * 8 < rows && column + j * 8 + n % 2 < outer)
				result.write(row + n / 2 * 8, column + j * 8 + n % 2, sum[j][n]);
}

#define STRAND(name, ...) \
	KERNEL THREADS((Strand<__VA_ARGS__>::threads)) name(float *out, u32 out_stride, const float *x, u32 x_stride, const u16 *w, u32 w_stride, \
		const float *bias, float alpha, u32 accumulate, u32 rows, u32 outer, u32 inner) { \
		strand<Strand<__VA_ARGS__>>({out, out_stride, bias, alpha, accumulate}, rows_of(x, x_stride), rows_of(w, w_stride), rows, outer, inner); \
	}
