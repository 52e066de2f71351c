// Products with bf16 weights on tensor cores, for linear.cu and linear_grad_x.cu.
//
// An element of the result is one chain of mma.sync.m16n8k16 with f32 sums, from zero, in ascending steps of 16 of the inner size. A tile
// shape decides which thread has the element and how far ahead its factors are brought, and nothing else: a row has the same bits in
// every tile shape, in every place of a tile, alone and among others.
//
// x comes to shared memory as it is, in f32, and is rounded to bf16 when a fragment is taken: parts = 1. With parts = 3 a number is the
// sum of three of bf16, exactly, as long as it is above 2^-110 and below 2^127: 3 × 8 bits are the 24 of f32. Each step of 16 is then
// summed from zero, smallest parts first, and added to the chain. What that gives is off by the roundings of the f32 sums alone.
#pragma once
#include "linear.h"

DEVICE void load_matrices(u32 *r, u32 from) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
DEVICE void load_transposed(u32 *r, u32 from) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
DEVICE void load_pair(float *first, float *second, u32 from) {
	asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(*first), "=f"(*second) : "r"(from) : "memory");
}
DEVICE void multiply(float *c, const u32 *a, const u32 *b) {
	asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

DEVICE float first_of(u32 pair) { return __builtin_bit_cast(float, pair << 16); }
DEVICE float second_of(u32 pair) { return __builtin_bit_cast(float, pair & 0xffff0000); }

// The shape of a tile: tile_rows × tile_columns results by warps_down × warps_across warps, in steps of `depth` of the inner size, with
// `stages` stages in flight.
template <u32 tile_rows_, u32 tile_columns_, u32 warps_down_, u32 warps_across_, u32 depth_, u32 stages_> struct Shape {
	static constexpr u32 tile_rows = tile_rows_, tile_columns = tile_columns_, warps_down = warps_down_, warps_across = warps_across_,
		depth = depth_, stages = stages_, threads = 32 * warps_down * warps_across,
		fragments_down = tile_rows / warps_down / 16, fragments_across = tile_columns / warps_across / 8; // fragments of a warp
	static_assert(tile_rows % (warps_down * 16) == 0 && tile_columns % (warps_across * 16) == 0 && depth % 16 == 0);
};

// Prefill and training; decoding of some sequences; decoding of a few: there the weights come from memory once and it is the bytes under
// way that make the speed, so that the ring is deep. The host has the same numbers, in linear.go.
using Large = Shape<128, 128, 2, 4, 32, 3>;
using Middle = Shape<32, 64, 2, 2, 64, 5>;
using Small = Shape<16, 32, 1, 2, 64, 10>;

// A stage of the ring: x, then weights, in bytes. The pitches keep the 8 rows of a matrix, and the 4 rows of half a warp's pairs, in
// different banks.
template <typename S, typename W> struct Stage {
	static constexpr u32 x_pitch = S::depth + 8, w = S::tile_rows * x_pitch * 4, bytes = w + W::bytes;
	static_assert(bytes * S::stages <= 99 << 10, "more than the smallest cards have for a block");
};

// Where a lane finds its part of a fragment of x: 16 rows, 16 columns.
template <u32 pitch> DEVICE u32 x_fragment_offset(u32 lane) { return (lane / 4 * pitch + lane % 4 * 2) * 4; }

// split makes a pair of numbers number i of a fragment, in parts of which the first is the largest.
template <u32 parts, u32 numbers> DEVICE void split(u32 (*fragment)[numbers], u32 i, float first, float second) {
	UNROLL for (u32 part = 0; part < parts; part++) {
		fragment[part][i] = rounded(first, second);
		first -= first_of(fragment[part][i]), second -= second_of(fragment[part][i]);
	}
}

// Loads a fragment from an address on.
template <u32 parts, u32 pitch> DEVICE void load_x_fragment(u32 (*a)[4], u32 from) {
	UNROLL for (u32 i = 0; i < 4; i++) {
		float first, second;
		load_pair(&first, &second, from + (i % 2 * 8 * pitch + i / 2 * 8) * 4);
		split<parts>(a, i, first, second);
	}
}

// Where a lane finds its row of the four matrices that are the weights of 16 inner numbers for 16 columns of results: those of 8
// columns, first and second half, then those of the next 8.
template <bool transposed, u32 pitch> DEVICE u32 weight_fragment_offset(u32 lane) {
	u32 outer = lane / 16 * 8 + (transposed ? 0 : lane % 8), inner = lane / 8 % 2 * 8 + (transposed ? lane % 8 : 0);
	return (transposed ? inner * pitch + outer : outer * pitch + inner) * 2;
}

// Weights as numbers of bf16. They lie in a stage as in memory: in rows of outputs for Linear (w [outer, inner]), of the inner size for its
// gradient (w [inner, outer]).
template <typename S, bool transposed> struct Bf16Weights {
	static constexpr u32 rows = transposed ? S::depth : S::tile_columns, columns = transposed ? S::tile_columns : S::depth,
		pitch = columns + 8, bytes = rows * pitch * 2, column_step = (transposed ? 16 : 16 * pitch) * 2,
		inner_step = (transposed ? pitch : 1) * 2;
	Rows<u16> w;

	// fetch copies the weights of a stage, the first being (row, column) of a matrix of all_rows × all_columns.
	MEMBER void fetch(u32 to, u32 row, u32 column, u32 all_rows, u32 all_columns) const {
		copy_tile<rows, columns, pitch, S::threads>(to, w, row, column, all_rows, all_columns);
	}
	// fragment_offset is where a lane begins, for the columns of results from `across` on.
	static MEMBER u32 fragment_offset(u32 across, u32 lane) {
		return (transposed ? across : across * pitch) * 2 + weight_fragment_offset<transposed, pitch>(lane);
	}
	// load_fragment loads the fragments of the n-th 16 columns, for inner numbers d to d + 15.
	MEMBER void load_fragment(u32 *b, u32 from, u32 n, u32 d) const {
		from += n * column_step + d * inner_step;
		transposed ? load_transposed(b, from) : load_matrices(b, from);
	}
};

// add_product adds 16 products to each sum. Those of three parts have a sum of their own first, from the smallest on: in the large one each
// part would be rounded away.
template <u32 parts> DEVICE void add_product(float *sum, const u32 (*a)[4], const u32 *b) {
	if (parts == 1)
		return multiply(sum, a[0], b);
	float step_sum[4] = {};
	UNROLL for (u32 part = parts; part-- > 0;)
		multiply(step_sum, a[part], b);
	UNROLL for (u32 i = 0; i < 4; i++)
		sum[i] += step_sum[i];
}

// product: the tile (block) of result [rows, outer] = x [rows, inner] · w, w [outer, inner] or, transposed, [inner, outer].
template <typename S, u32 parts, bool transposed, typename W>
DEVICE void product(const Result &result, Rows<float> x, const W &weights, u32 rows, u32 outer, u32 inner) {
	using Layout = Stage<S, W>;
	extern __shared__ __attribute__((aligned(16))) unsigned char ring[];
	u32 lane = thread() % 32, warp = thread() / 32;
	u32 warp_row = warp % S::warps_down * S::fragments_down * 16, warp_column = warp / S::warps_down * S::fragments_across * 8;
	auto fetch = [&](u32 to, u32 k) {
		u32 row = block_y_here() * S::tile_rows, column = block_x_here() * S::tile_columns;
		copy_tile<S::tile_rows, S::depth, Layout::x_pitch, S::threads>(to, x, row, k, rows, inner);
		if (transposed)
			weights.fetch(to + Layout::w, k, column, inner, outer);
		else
			weights.fetch(to + Layout::w, column, k, outer, inner);
	};
	u32 first_stage = shared_address(ring), x_offset = warp_row * Layout::x_pitch * 4 + x_fragment_offset<Layout::x_pitch>(lane),
		w_offset = Layout::w + W::fragment_offset(warp_column, lane);
	ROLLED for (u32 s = 0; s < S::stages - 1; s++) {
		if (s * S::depth < inner)
			fetch(first_stage + s * Layout::bytes, s * S::depth);
		commit();
	}
	float sum[S::fragments_down][S::fragments_across][4] = {};
	u32 stage = first_stage, last_stage = first_stage + (S::stages - 1) * Layout::bytes;
	ROLLED for (u32 k = 0; k < inner; k += S::depth) {
		wait<S::stages - 2>();
		barrier(); // everyone has used the stage before
		if (k + (S::stages - 1) * S::depth < inner)
			fetch(stage == first_stage ? last_stage : stage - Layout::bytes, k + (S::stages - 1) * S::depth);
		commit();
		UNROLL for (u32 d = 0; d < S::depth; d += 16) {
			u32 b[S::fragments_across][2];
			UNROLL for (u32 j = 0; j < S::fragments_across; j += 2)
				weights.load_fragment(b[j], stage + w_offset, j / 2, d);
			UNROLL for (u32 i = 0; i < S::fragments_down; i++) {
				u32 a[parts][4];
				load_x_fragment<parts, Layout::x_pitch>(a, stage + x_offset + (i * 16 * Layout::x_pitch + d) * 4);
				UNROLL for (u32 j = 0; j < S::fragments_across; j++)
					add_product<parts>(sum[i][j], a, b[j]);
			}
		}
		stage = stage == last_stage ? first_stage : stage + Layout::bytes;
	}
	u32 here = thread_here();
	u32 row = block_y_here() * S::tile_rows + here / 32 % S::warps_down * S::fragments_down * 16 + here % 32 / 4;
	u32 column = block_x_here() * S::tile_columns + here / 32 / S::warps_down * S::fragments_across * 8 + here % 4 * 2;
	UNROLL for (u32 i = 0; i < S::fragments_down; i++)
		UNROLL for (u32 j = 0; j < S::fragments_across; j++)
			UNROLL for (u32 n = 0; n < 4; n++) {
				u32 r = row + i * 16 + n / 2 * 8, c = column + j * 8 + n % 2;
				if (r < rows && c < outer)
					result.write(r, c, sum[i][j][n]);
			}
}

// The kernels of a product: for each shape, x rounded to bf16 and x in three parts.
#define PRODUCT(name, shape, tile, parts, transposed) \
	KERNEL THREADS(tile::threads) name##_##shape(float *out, u32 out_stride, const float *x, u32 x_stride, const u16 *w, u32 w_stride, \
		const float *bias, float alpha, u32 accumulate, u32 rows, u32 outer, u32 inner) { \
		product<tile, parts, transposed>({out, out_stride, bias, alpha, accumulate}, rows_of(x, x_stride), \
			Bf16Weights<tile, transposed>{rows_of(w, w_stride)}, rows, outer, inner); \
	}
#define PRODUCTS(name, transposed) \
	PRODUCT(name##_bf16, 128x128, Large, 1, transposed) \
	PRODUCT(name##_bf16, 32x64, Middle, 1, transposed) \
	PRODUCT(name##_bf16, 16x32, Small, 1, transposed) \
	PRODUCT(name##_split, 128x128, Large, 3, transposed) \
	PRODUCT(name##_split, 32x64, Middle, 3, transposed) \
	PRODUCT(name##_split, 16x32, Small, 3, transposed)
