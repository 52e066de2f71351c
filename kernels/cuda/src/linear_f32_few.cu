// Products of few results with f32 weights, in the chains of linear_f32.cu: an adapter while decoding. Latency dominates: a chain is
// thousands of multiply-adds, each of which waits for the one before. So a lane has one chain, no warp waits for another, the next
// factors are copied between multiply-adds, and those of a step are in registers three steps ahead. The inner size is a multiple of deep;
// rows begin at multiples of 16 bytes.
#include "linear.h"

DEVICE void warp_barrier() { asm volatile("bar.warp.sync -1;" ::: "memory"); }
// A multiply-add that the compiler does not reorder: otherwise it would hoist the loads of later ones, which would occupy registers.
DEVICE void ordered_fma(float *sum, float a, float b) { asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(*sum) : "f"(a), "f"(b)); }

// A block is a warp with tile_rows × tile_columns results: each lane has one column of some rows, row_step apart, in steps of `depth` of
// the inner size.
template <u32 tile_rows_, u32 tile_columns_, u32 stages_> struct Chains {
	static constexpr u32 tile_rows = tile_rows_, tile_columns = tile_columns_, depth = 128, stages = stages_,
		lane_chains = tile_rows * tile_columns / 32, row_step = tile_rows / lane_chains,
		pitch = (depth + 4) * 4, w = tile_rows * pitch, line_count = tile_rows + tile_columns, bytes = line_count * pitch;
	static_assert(tile_rows * tile_columns % 32 == 0 && tile_rows % lane_chains == 0);
	static_assert(line_count * 4 <= depth && bytes * stages <= 99 << 10);
};

// The part of a stage that a lane copies: 16 bytes of each row of x and of w.
template <typename S> struct Lines {
	const float *x, *w;
	u32 x_stride, w_stride, rows, outer; // from the first row on

	// copy_line copies row n for the inner numbers from k on, or zeros.
	MEMBER void copy_line(u32 to, u32 n, u32 k, bool inside) const {
		bool of_x = n < S::tile_rows;
		u32 row = of_x ? n : n - S::tile_rows;
		const float *from = of_x ? x + (u64)row * x_stride : w + (u64)row * w_stride;
		copy16(to + n * S::pitch + thread_here() * 16, from + k, inside && row < (of_x ? rows : outer) ? 16 : 0);
	}
};

template <typename S> DEVICE void chains(const Result &result, Rows<float> x, Rows<float> w, u32 rows, u32 outer, u32 inner) {
	constexpr u32 steps_ahead = 3, buffers = steps_ahead + 1;
	extern __shared__ __attribute__((aligned(16))) unsigned char ring[];
	u32 row = block_y() * S::tile_rows, column = block_x() * S::tile_columns;
	Lines<S> line_count = {x.data + (u64)row * x.stride + thread() * 4, w.data + (u64)column * w.stride + thread() * 4, x.stride, w.stride,
		rows - row, outer - column};
	u32 stage = shared_address(ring), first_stage = stage, last_stage = stage + (S::stages - 1) * S::bytes;
	ROLLED for (u32 s = 0; s < S::stages - 1; s++) {
		UNROLL for (u32 n = 0; n < S::line_count; n++)
			line_count.copy_line(first_stage + s * S::bytes, n, s * S::depth, s * S::depth < inner);
		commit();
	}
	float sum[S::lane_chains] = {}, x_values[buffers][S::lane_chains][4], w_values[buffers][4];
	u32 x_offset = thread() / S::tile_columns * S::pitch, w_offset = S::w + thread() % S::tile_columns * S::pitch;
	auto load_factors = [&](u32 n, u32 from) {
		load<4>(w_values[n], from + w_offset);
		UNROLL for (u32 i = 0; i < S::lane_chains; i++)
			load<4>(x_values[n][i], from + x_offset + i * S::row_step * S::pitch);
	};
	wait<S::stages - 2>();
	warp_barrier();
	UNROLL for (u32 n = 0; n < steps_ahead; n++)
		load_factors(n, stage + n * 16);
	ROLLED for (u32 k = 0; k < inner; k += S::depth) {
		u32 before = stage == first_stage ? last_stage : stage - S::bytes, next = k + (S::stages - 1) * S::depth;
		UNROLL for (u32 d = 0; d < S::depth; d += 4) {
			u32 depth_ahead = d + 4 * steps_ahead, n = d / 4 % buffers;
			if (d / 4 < S::line_count) // the whole warp has read the stage before, which is overwritten here
				line_count.copy_line(before, d / 4, next, next < inner);
			if (d / 4 == S::line_count)
				commit();
			if (depth_ahead == S::depth) {
				wait<S::stages - 2>();
				warp_barrier();
				stage = stage == last_stage ? first_stage : stage + S::bytes; // after the end there are zeros
			}
			load_factors(depth_ahead / 4 % buffers, stage + depth_ahead % S::depth * 4);
			UNROLL for (u32 e = 0; e < 4; e++)
				UNROLL for (u32 i = 0; i < S::lane_chains; i++)
					ordered_fma(&sum[i], x_values[n][i][e], w_values[n][e]);
		}
	}
	row = block_y_here() * S::tile_rows + thread_here() / S::tile_columns;
	column = block_x_here() * S::tile_columns + thread_here() % S::tile_columns;
	UNROLL for (u32 i = 0; i < S::lane_chains; i++)
		if (row + i * S::row_step < rows && column < outer)
			result.write(row + i * S::row_step, column, sum[i]);
}

#define CHAINS(name, ...) \
	KERNEL THREADS(32) name(float *out, u32 out_stride, const float *x, u32 x_stride, const float *w, u32 w_stride, \
		const float *bias, float alpha, u32 accumulate, u32 rows, u32 outer, u32 inner) { \
		chains<Chains<__VA_ARGS__>>({out, out_stride, bias, alpha, accumulate}, rows_of(x, x_stride), rows_of(w, w_stride), rows, outer, inner); \
	}
CHAINS(linear_f32_4x8, 4, 8, 6)
