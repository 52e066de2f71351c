// LinearGradW: dw [N, K] += alpha · dyᵀ · x, for dy [T, N] and x [T, K], on tensor cores.
//
// Both f32 factors are split into three bf16 parts; six of the nine products are computed, and those left out are as small as the
// rounding of f32. An element is one chain for each 512 rows, from zero, in ascending steps of 16 rows, each of which is summed from
// zero, smallest parts first; the chains are added in ascending order. The tile shape, and which block adds the chains, changes no bit.
#include "linear_tensor.h"

// The shapes of tiles. The host has the same numbers, in linear.go.
using Wide = Shape<64, 64, 2, 4, 32, 3>;
using Narrow = Shape<32, 32, 2, 1, 32, 5>;

constexpr u32 chain = 512, parts = 3;

DEVICE float load(u32 from) {
	float x;
	asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
	return x;
}

// The address of a lane's part of a fragment whose factor is stored with its 16 rows along the inner size.
template <u32 pitch> DEVICE u32 column_fragment_offset(u32 lane) { return (lane % 4 * 2 * pitch + lane / 4) * 4; }

// load_columns loads number i of a fragment from two consecutive rows.
template <u32 pitch, u32 numbers> DEVICE void load_columns(u32 (*fragment)[numbers], u32 i, u32 from) {
	split<parts>(fragment, i, load(from), load(from + pitch * 4));
}

// add_split_products adds 16 products of numbers in three parts to each sum.
DEVICE void add_split_products(float *sum, const u32 (*a)[4], const u32 (*b)[2]) {
	float step_sum[4] = {};
	UNROLL for (u32 part_sum = parts; part_sum-- > 0;) // parts left out are together less than a unit in the last place
		UNROLL for (u32 part_of_a = part_sum + 1; part_of_a-- > 0;)
			multiply(step_sum, a[part_of_a], b[part_sum - part_of_a]);
	UNROLL for (u32 i = 0; i < 4; i++)
		sum[i] += step_sum[i];
}

// gradient computes the tile of the block of dw, or of the chain to add to it, over rows [first, end).
template <typename S> DEVICE void gradient(const Result &result, Rows<float> dy, Rows<float> x, u32 N, u32 K, u32 first, u32 end) {
	constexpr u32 a_pitch = S::tile_rows + 4, b_pitch = S::tile_columns + 4, b_tile = S::depth * a_pitch * 4,
		bytes = b_tile + S::depth * b_pitch * 4, ahead = S::stages - 1;
	static_assert(bytes * S::stages <= 99 << 10 && chain % S::depth == 0);
	extern __shared__ __attribute__((aligned(16))) unsigned char ring[];
	u32 first_stage = shared_address(ring), row = block_y() * S::tile_rows, column = block_x() * S::tile_columns;
	u32 lane = thread() % 32, warp = thread() / 32;
	u32 a_offset = column_fragment_offset<a_pitch>(lane) + warp % S::warps_down * S::fragments_down * 64,
		b_offset = b_tile + column_fragment_offset<b_pitch>(lane) + warp / S::warps_down * S::fragments_across * 32;
	auto fetch = [&](u32 to, u32 t) {
		copy_tile<S::depth, S::tile_rows, a_pitch, S::threads>(to, dy, t, row, end, N);
		copy_tile<S::depth, S::tile_columns, b_pitch, S::threads>(to + b_tile, x, t, column, end, K);
	};
	ROLLED for (u32 s = 0; s < ahead; s++) {
		if (first + s * S::depth < end)
			fetch(first_stage + s * bytes, first + s * S::depth);
		commit();
	}
	float sum[S::fragments_down][S::fragments_across][4] = {}, total[S::fragments_down][S::fragments_across][4] = {};
	u32 stage = first_stage, last_stage = first_stage + ahead * bytes;
	ROLLED for (u32 t = first; t < end; t += S::depth) {
		wait<ahead - 1>();
		barrier(); // the stage before is no longer needed
		if (t + ahead * S::depth < end)
			fetch(stage == first_stage ? last_stage : stage - bytes, t + ahead * S::depth);
		commit();
		UNROLL for (u32 d = 0; d < S::depth; d += 16) {
			u32 b[S::fragments_across][parts][2];
			UNROLL for (u32 j = 0; j < S::fragments_across; j++)
				UNROLL for (u32 i = 0; i < 2; i++)
					load_columns<b_pitch>(b[j], i, stage + b_offset + ((d + i * 8) * b_pitch + j * 8) * 4);
			UNROLL for (u32 i = 0; i < S::fragments_down; i++) {
				u32 a[parts][4];
				UNROLL for (u32 n = 0; n < 4; n++)
					load_columns<a_pitch>(a, n, stage + a_offset + ((d + n / 2 * 8) * a_pitch + i * 16 + n % 2 * 8) * 4);
				UNROLL for (u32 j = 0; j < S::fragments_across; j++)
					add_split_products(sum[i][j], a, b[j]);
			}
		}
		if ((t + S::depth) % chain == 0 || t + S::depth >= end)
			UNROLL for (u32 i = 0; i < S::fragments_down; i++)
				UNROLL for (u32 j = 0; j < S::fragments_across; j++)
					UNROLL for (u32 n = 0; n < 4; n++)
						total[i][j][n] += sum[i][j][n], sum[i][j][n] = 0;
		stage = stage == last_stage ? first_stage : stage + bytes;
	}
	u32 here = thread_here();
	row = block_y_here() * S::tile_rows + here / 32 % S::warps_down * S::fragments_down * 16 + here % 32 / 4;
	column = block_x_here() * S::tile_columns + here / 32 / S::warps_down * S::fragments_across * 8 + here % 4 * 2;
	UNROLL for (u32 i = 0; i < S::fragments_down; i++)
		UNROLL for (u32 j = 0; j < S::fragments_across; j++)
			UNROLL for (u32 n = 0; n < 4; n++) {
				u32 r = row + i * 16 + n / 2 * 8, c = column + j * 8 + n % 2;
				if (r < N && c < K)
					result.write(r, c, total[i][j][n]);
			}
}

// Without sums, a block adds the chains of its tile; with sums [blocks in z, N, K], it writes the chain of its z, and linear_grad_w_add
// adds them.
#define GRADIENT(shape, tile) \
	KERNEL THREADS(tile::threads) linear_grad_w_##shape(float *dw, const float *dy, u32 dy_stride, const float *x, u32 x_stride, float alpha, \
		float *sums, u32 T, u32 N, u32 K) { \
		u32 z = __nvvm_read_ptx_sreg_ctaid_z(); \
		gradient<tile>({sums ? sums + (u64)z * N * K : dw, K, nullptr, sums ? 1 : alpha, !sums}, rows_of(dy, dy_stride), \
			rows_of(x, x_stride), N, K, sums ? z * chain : 0, sums ? min(T, (z + 1) * chain) : T); \
	}
GRADIENT(64x64, Wide)
GRADIENT(32x32, Narrow)

KERNEL THREADS(256) linear_grad_w_add(float *dw, const float *sums, float alpha, u32 chains, u64 n) {
	u64 i = (u64)block_x() * 256 + thread();
	if (i >= n)
		return;
	float total = 0;
	for (u32 c = 0; c < chains; c++)
		total += sums[c * n + i];
	Result{dw + i, 0, nullptr, alpha, 1}.write(0, 0, total);
}
