// Products of rows that are already rounded to bf16 with weights in bf16, where training and prefill spend their time. The results are
// those of linear_tensor.h, to the bit: the same numbers in the same chains, but rounded once, and not in each tile.
//
// Why it is fast: a warp has 64 results in each direction, so that a fragment is reused often. A block has only four warps, which wait
// for each other at each stage; a multiprocessor has two blocks, so that one computes while the other starts, waits or ends. The
// fragments of the next step are loaded during the products of this one. Tensor cores take no more numbers from registers than a thread
// can hold, so these kernels use more registers than others.
#pragma once
#include "linear_tensor.h"

// Narrowed rows are stored in strips of 64 columns, each with all rows, as many as tiles read and zero outside of the matrix, so that no
// bounds need to be checked. narrow.cu has the same number, and so has the host, in narrowed.go.
constexpr u32 strip = 64;

// A tile: 128 × tile_columns results by 2 × 2 warps, in steps of `depth` of the inner size, with `stages` stages in flight.
template <u32 tile_columns_, u32 depth_, u32 stages_> struct Narrowed {
	static constexpr u32 tile_rows = 128, tile_columns = tile_columns_, depth = depth_, stages = stages_, threads = 128,
		warps_down = 2, fragments_down = tile_rows / warps_down / 16, fragments_across = tile_columns / 2 / 8;
	static_assert(tile_columns % 32 == 0 && depth % strip == 0);
};
using Broad = Narrowed<160, 64, 2>;
using Square = Narrowed<128, 64, 3>;

DEVICE void copy_whole(u32 to, const void *from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

DEVICE void load_two(u32 *r, u32 from) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(from) : "memory");
}

// The place of 16 bytes of a row in shared memory, permuted so that the same 16 bytes of 8 rows are in different banks, as are the copies
// of a warp.
DEVICE u32 swizzled(u32 row, u32 chunk) { return row * strip * 2 + (chunk ^ row % 8) * 16; }

// Rows with the inner size along them, in panels of `strip` columns: narrowed rows, and weights of Linear. An exclusive or adds a step of
// 16 inner numbers to a lane's address.
template <typename S, u32 rows> struct AlongRows {
	static constexpr u32 chunks = strip / 8, step = S::threads / chunks, bytes = rows * S::depth * 2;
	static_assert(step % 8 == 0 && (S::depth == strip || rows % step == 0));

	static MEMBER void fetch_narrowed(u32 to, const u16 *x, u32 all_rows, u32 row, u32 k, u32 inner) {
		u32 r = thread_here() / chunks, c = thread_here() % chunks;
		const u16 *from = x + ((u64)(k / strip) * all_rows + row + r) * strip + (k % strip + c * 8);
		to += swizzled(r, c);
		UNROLL for (u32 i = 0; i < rows; i += step)
			if (i + step <= rows || r < rows - i)
				copy_whole(to + i * strip * 2, from + i * strip);
		UNROLL for (u32 p = strip; p < S::depth; p += strip) // a last strip may be missing at the end of the inner size
			UNROLL for (u32 i = 0; i < rows; i += step)
				copy16(to + (p * rows + i * strip) * 2, from + (u64)(p / strip) * all_rows * strip + i * strip, k + p < inner ? 16 : 0);
	}
	static MEMBER void fetch(u32 to, const u16 *w, u32 stride, u32 k, u32 row, u32 inner, u32 outer) {
		asm volatile("" : "+r"(stride), "+l"(w)); // as in copy_tile
		u32 r = thread_here() / chunks, c = thread_here() % chunks;
		const u16 *from = w + (u64)(row + r) * stride + (k + c * 8);
		to += swizzled(r, c);
		if (k + S::depth <= inner && row + rows <= outer) {
			UNROLL for (u32 i = 0; i < rows; i += step, from += (u64)step * stride)
				if (i + step <= rows || r < rows - i)
					UNROLL for (u32 p = 0; p < S::depth; p += strip)
						copy_whole(to + (p * rows + i * strip) * 2, from + p);
			return;
		}
		u32 valid_bytes[S::depth / strip];
		UNROLL for (u32 p = 0, column = k + c * 8; p < S::depth; p += strip, column += strip)
			valid_bytes[p / strip] = column < inner ? min(inner - column, 8) * 2 : 0;
		UNROLL for (u32 i = 0; i < rows; i += step, from += (u64)step * stride)
			if (i + step <= rows || r < rows - i)
				UNROLL for (u32 p = 0; p < S::depth; p += strip)
					copy16(to + (p * rows + i * strip) * 2, from + p, row + r + i < outer ? valid_bytes[p / strip] : 0);
	}
	static MEMBER u32 fragment_offset(u32 row, u32 lane) { return swizzled(row + lane % 16, lane / 16); }
	static MEMBER u32 weight_fragment_offset(u32 row, u32 lane) { return swizzled(row + lane / 16 * 8 + lane % 8, lane / 8 % 2); }
	static MEMBER u32 fragment_at(u32 place, u32 n, u32 d) { return (place ^ d % strip * 2) + (d / strip * rows + n * 16) * strip * 2; }
};

// Weights of the gradient of Linear, with the inner size along columns. Addresses are permuted so that the same 16 bytes of 8 rows are in
// different banks here, too: rows are a multiple of 128 bytes, or of 64.
template <typename S> struct AlongColumns {
	static constexpr u32 pitch = S::tile_columns * 2, bytes = S::depth * pitch, across = S::tile_columns % 64 ? 4 : 8,
		step = S::threads / across;
	static_assert(S::tile_columns % 32 == 0 && S::depth % step == 0);
	struct Places {
		u32 even, odd; // of the n-th 16 columns
	};

	static MEMBER u32 place(u32 row, u32 chunk) { return row * pitch + (across == 8 ? chunk ^ row % 8 : chunk ^ row / 2 % 4) * 16; }
	static MEMBER void fetch(u32 to, const u16 *w, u32 stride, u32 k, u32 column, u32 inner, u32 outer) {
		asm volatile("" : "+r"(stride), "+l"(w));
		u32 r = thread_here() / across, c = thread_here() % across;
		const u16 *from = w + (u64)(k + r) * stride + (column + c * 8);
		to += place(r, c);
		bool whole = k + S::depth <= inner && column + S::tile_columns <= outer;
		UNROLL for (u32 i = 0; i < S::depth; i += step, from += (u64)step * stride)
			if (whole)
				UNROLL for (u32 j = 0; j < S::tile_columns / 8; j += across)
					copy_whole(to + i * pitch + j * 16, from + j * 8);
			else
				UNROLL for (u32 j = 0; j < S::tile_columns / 8; j += across)
					copy16(to + i * pitch + j * 16, from + j * 8, k + r + i < inner && column + (c + j) * 8 < outer ? 16 : 0);
	}
	static MEMBER Places weight_fragment_offset(u32 column, u32 lane) {
		u32 chunk = column / 8 + lane / 16;
		return {place(lane % 16, chunk), place(lane % 16, chunk + 2)};
	}
	static MEMBER u32 fragment_at(const Places &p, u32 n, u32 d) {
		u32 place = n % 2 ? p.odd : p.even, further = n / 2 * 64;
		return (across == 8 ? place ^ further : place + further) + d * pitch;
	}
};
template <typename S, bool transposed> struct Weights { using Along = AlongRows<S, S::tile_columns>; };
template <typename S> struct Weights<S, true> { using Along = AlongColumns<S>; };

// The tile of a block: `together` tiles below each other, then the next column of them. Blocks that run at the same time then read as
// little as possible.
constexpr u32 together = 8;
template <typename S> DEVICE void tile_of_block(u32 *row, u32 *column, u32 rows, u32 outer) {
	u32 down = (rows + S::tile_rows - 1) / S::tile_rows, across = (outer + S::tile_columns - 1) / S::tile_columns, all = together * across;
	u32 first = block_x() / all * together, n = block_x() % all, here = min(together, down - first);
	*row = (first + n % here) * S::tile_rows, *column = n / here * S::tile_columns;
}

// write_pairs writes a thread's results in a row, 8 columns apart. It reads all the old values before it writes any, since a thread would
// wait for each otherwise. Pairs begin at multiples of 8 bytes, and a row is a multiple of 8 columns.
template <u32 wide> DEVICE void write_pairs(const Result &result, u32 row, u32 column, u32 outer, const float (*sum)[4], u32 half) {
	float *to = result.out + (u64)row * result.stride + column, before[wide][2] = {};
	if (result.accumulate)
		UNROLL for (u32 j = 0; j < wide; j++)
			if (column + j * 8 < outer)
				asm volatile("ld.global.v2.f32 {%0,%1}, [%2];" : "=f"(before[j][0]), "=f"(before[j][1]) : "l"(to + j * 8) : "memory");
	UNROLL for (u32 j = 0; j < wide; j++)
		if (column + j * 8 < outer) {
			float pair[2];
			UNROLL for (u32 n = 0; n < 2; n++) {
				float all = 0 + before[j][n];
				if (result.bias)
					all += result.bias[column + j * 8 + n];
				pair[n] = __builtin_fmaf(result.alpha, sum[j][half * 2 + n], all);
			}
			asm volatile("st.global.v2.f32 [%0], {%1,%2};" ::"l"(to + j * 8), "f"(pair[0]), "f"(pair[1]) : "memory");
		}
}

// product computes the tile of the block of result [rows, outer] = x [rows, inner] · w, w [outer, inner] or, transposed, [inner, outer].
template <typename S, bool transposed, u32 buffers>
DEVICE void product_of_narrowed(const Result &result, const u16 *x, u32 x_rows, const u16 *w, u32 stride, u32 rows, u32 outer, u32 inner) {
	using X = AlongRows<S, S::tile_rows>;
	using W = typename Weights<S, transposed>::Along;
	constexpr u32 bytes = X::bytes + W::bytes, ahead = S::stages - 1;
	static_assert(bytes * S::stages <= 99 << 10);
	extern __shared__ __attribute__((aligned(128))) unsigned char ring[];
	u32 lane = thread() % 32, warp = thread() / 32, first_stage = shared_address(ring), row, column;
	tile_of_block<S>(&row, &column, rows, outer);
	u32 x_offset = X::fragment_offset(warp % S::warps_down * S::fragments_down * 16, lane);
	auto w_offset = W::weight_fragment_offset(warp / S::warps_down * S::fragments_across * 8, lane);
	auto fetch = [&](u32 to, u32 k) {
		X::fetch_narrowed(to, x, x_rows, row, k, inner);
		W::fetch(to + X::bytes, w, stride, k, column, inner, outer);
	};
	u32 a[buffers][S::fragments_down][4], b[buffers][S::fragments_across][2];
	auto load_fragments = [&](u32 n, u32 from, u32 d) {
		UNROLL for (u32 j = 0; j + 1 < S::fragments_across; j += 2)
			transposed ? load_transposed(b[n][j], from + X::bytes + W::fragment_at(w_offset, j / 2, d))
				: load_matrices(b[n][j], from + X::bytes + W::fragment_at(w_offset, j / 2, d));
		if (S::fragments_across % 2)
			load_two(b[n][S::fragments_across - 1], from + X::bytes + W::fragment_at(w_offset, S::fragments_across / 2, d));
		UNROLL for (u32 i = 0; i < S::fragments_down; i++)
			load_matrices(a[n][i], from + X::fragment_at(x_offset, i, d));
	};
	ROLLED for (u32 s = 0; s < ahead; s++) {
		if (s * S::depth < inner)
			fetch(first_stage + s * bytes, s * S::depth);
		commit();
	}
	float sum[S::fragments_down][S::fragments_across][4] = {};
	u32 stage = first_stage, last_stage = first_stage + ahead * bytes;
	wait<ahead - 1>();
	barrier();
	if (buffers == 2)
		load_fragments(0, stage, 0);
	ROLLED for (u32 k = 0; k < inner; k += S::depth) {
		UNROLL for (u32 d = 0; d < S::depth; d += 16) {
			bool end = d + 16 == S::depth;
			u32 next = (d / 16 + 1) % buffers;
			if (buffers == 1)
				load_fragments(0, stage, d);
			else if (!end)
				load_fragments(next, stage, d + 16);
			if (d == 0) { // the stage before is no longer needed
				if (k + ahead * S::depth < inner)
					fetch(stage == first_stage ? last_stage : stage - bytes, k + ahead * S::depth);
				commit();
			}
			if (end) {
				wait<ahead - 1>();
				barrier();
				stage = k + S::depth >= inner ? stage : stage == last_stage ? first_stage : stage + bytes; // after the end, the contents are not used
				if (buffers == 2)
					load_fragments(next, stage, 0);
			}
			UNROLL for (u32 i = 0; i < S::fragments_down; i++)
				UNROLL for (u32 j = 0; j < S::fragments_across; j++)
					multiply(sum[i][j], a[d / 16 % buffers][i], b[d / 16 % buffers][j]);
		}
	}
	u32 here = thread_here();
	row += here / 32 % S::warps_down * S::fragments_down * 16 + here % 32 / 4;
	column += here / 32 / S::warps_down * S::fragments_across * 8 + here % 4 * 2;
	UNROLL for (u32 i = 0; i < S::fragments_down; i++)
		UNROLL for (u32 half = 0; half < 2; half++)
			if (row + i * 16 + half * 8 < rows)
				write_pairs<S::fragments_across>(result, row + i * 16 + half * 8, column, outer, sum[i], half);
}

#define NARROWED(name, transposed, tile, buffers) \
	KERNEL THREADS(tile::threads) name(float *out, u32 out_stride, const u16 *x, u32 x_rows, const u16 *w, u32 w_stride, const float *bias, \
		float alpha, u32 accumulate, u32 rows, u32 outer, u32 inner) { \
		product_of_narrowed<tile, transposed, buffers>({out, out_stride, bias, alpha, accumulate}, x, x_rows, w, w_stride, rows, outer, inner); \
	}
