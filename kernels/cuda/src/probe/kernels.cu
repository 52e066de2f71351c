// Correct kernels, one for each way in which threads cooperate.
#include "probe.h"

KERNEL saxpy(float *y, const float *x, float a, u32 n) {
	u32 i = index();
	if (i < n)
		y[i] = __builtin_fmaf(a, x[i], y[i]);
}

// The sum of each block's numbers: shuffles within warps, shared memory between them.
KERNEL THREADS(256) reduce(float *sums, const float *x, u32 n) {
	__shared__ float of_warps[8];
	u32 i = index(), lane = thread() & 31, warp = thread() >> 5;
	float s = i < n ? x[i] : 0;
	for (int m = 16; m; m >>= 1)
		s += __nvvm_shfl_sync_bfly_f32(~0u, s, m, 31);
	if (lane == 0)
		of_warps[warp] = s;
	barrier();
	if (thread() == 0) {
		float all = 0;
		for (u32 w = 0; w < threads() / 32; w++)
			all += of_warps[w];
		sums[block()] = all;
	}
}

// Prefix sums of 256 numbers a block, by doubling steps.
KERNEL THREADS(256) scan(u32 *out, const u32 *in) {
	__shared__ u32 sums[2][256];
	u32 t = thread(), from = 0;
	sums[0][t] = in[index()];
	barrier();
	for (u32 step = 1; step < 256; step *= 2) {
		sums[from ^ 1][t] = sums[from][t] + (t >= step ? sums[from][t - step] : 0);
		from ^= 1;
		barrier();
	}
	out[index()] = sums[from][t];
}

// The number of steps until the Collatz sequence of i + 1 reaches 1: lanes leave the loop at different times.
KERNEL collatz(u32 *steps, u32 n) {
	u32 i = index(), count = 0;
	if (i >= n)
		return;
	for (u64 v = i + 1; v != 1; count++)
		v = v & 1 ? 3 * v + 1 : v / 2;
	steps[i] = count;
}

// out [rows, columns] = x [rows, depth] · wᵀ, w [columns, depth]: tiles of 32 × 64 by four warps, depth in steps of 32 that cp.async
// copies two steps ahead. rows, columns and depth are multiples of the tile.
constexpr int tile_rows = 32, tile_columns = 64, tile_depth = 32, stages = 3, row_stride = tile_depth + 8;

struct Tiles {
	u16 x[stages][tile_rows][row_stride], w[stages][tile_columns][row_stride];
};

DEVICE void copy_tile(Tiles *s, int stage, const u16 *x, const u16 *w, u32 depth, u32 k) {
	for (int i = (int)thread(); i < tile_rows * (tile_depth / 8); i += 128)
		copy16(&s->x[stage][i / 4][i % 4 * 8], x + (u64)(i / 4) * depth + k + i % 4 * 8);
	for (int i = (int)thread(); i < tile_columns * (tile_depth / 8); i += 128)
		copy16(&s->w[stage][i / 4][i % 4 * 8], w + (u64)(i / 4) * depth + k + i % 4 * 8);
}

KERNEL THREADS(128) gemm(float *out, const u16 *x, const u16 *w, u32 columns, u32 depth) {
	__shared__ __attribute__((aligned(16))) Tiles s;
	u32 lane = thread() & 31, warp = thread() >> 5, row = __nvvm_read_ptx_sreg_ctaid_y() * tile_rows, column = block() * tile_columns;
	float c[2][2][4] = {};
	x += (u64)row * depth;
	w += (u64)column * depth;
	for (int t = 0; t < stages - 1; t++) {
		if (t * tile_depth < (int)depth)
			copy_tile(&s, t, x, w, depth, (u32)(t * tile_depth));
		commit();
	}
	for (u32 k = 0, step = 0; k < depth; k += tile_depth, step++) {
		wait<stages - 2>();
		barrier();
		u32 ahead = k + (stages - 1) * tile_depth;
		if (ahead < depth)
			copy_tile(&s, (int)((step + stages - 1) % stages), x, w, depth, ahead);
		commit();
		u32 at = step % stages;
		UNROLL for (u32 half = 0; half < tile_depth; half += 16) {
			u32 a[2][4], b[4];
			UNROLL for (u32 i = 0; i < 2; i++)
				load_matrices(a[i], &s.x[at][i * 16 + (lane & 15)][half + (lane >> 4) * 8]);
			load_matrices(b, &s.w[at][warp * 16 + (lane & 7) + (lane >> 4) * 8][half + (lane >> 3 & 1) * 8]);
			UNROLL for (u32 i = 0; i < 2; i++)
				UNROLL for (u32 j = 0; j < 2; j++)
					multiply(c[i][j], a[i], b + 2 * j);
		}
	}
	UNROLL for (u32 i = 0; i < 2; i++)
		UNROLL for (u32 j = 0; j < 2; j++)
			UNROLL for (u32 n = 0; n < 4; n++)
				out[(u64)(row + i * 16 + (lane >> 2) + (n >> 1) * 8) * columns + column + warp * 16 + j * 8 + (lane & 3) * 2 + (n & 1)] = c[i][j][n];
}
