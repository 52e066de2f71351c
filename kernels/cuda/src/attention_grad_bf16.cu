// The gradient of attention over keys and values in bf16, on tensor cores. Queries, scaled, dout, weights and their gradients are rounded
// to bf16; sums are f32, chains in steps of 16 from zero.
#include "attention_grad_rows.h"

// A tile has tile_rows own rows (X' and Y'), and reads 64 rows (X and Y) at a time. The products of 16 own rows are shared by
// warps_across warps, each of which has an equal share of the rows read, and then of the columns of the sums.
template <bool keys_, u32 dim_, u32 tile_rows_, u32 warps_across_> struct Tensor {
	typedef u16 Number;
	static constexpr bool keys = keys_;
	// The first row read is a multiple of first_multiple.
	static constexpr u32 dim = dim_, tile_rows = tile_rows_, warps_across = warps_across_, read_rows = 64, first_multiple = read_rows,
		stages = 1, thread_rows = 2, warps_down = tile_rows / 16, threads = 32 * warps_down * warps_across, pitch = dim + 8,
		p_pitch = read_rows + 8, warp_read_rows = read_rows / warps_across, warp_columns = dim / warps_across;
	// Addresses in shared memory, in bytes: X' at 0, Y', X, Y, s, then for keys p, and lse, delta and positions of the rows read.
	static constexpr u32 own_y = tile_rows * pitch * 2, x = 2 * own_y, y = x + read_rows * pitch * 2, s = y + read_rows * pitch * 2,
		p = s + tile_rows * p_pitch * 2, sums = p + tile_rows * p_pitch * 2,
		bytes = keys ? sums + (2 * read_rows + position_slots(read_rows)) * 4 : p;
	static_assert(warp_read_rows % 16 == 0 && warp_columns % 16 == 0 && bytes <= 99 << 10 && threads >= 2 * read_rows);
	typedef float Sums[warp_columns / 8][4];

	Scoring scoring;
	u32 base_, row_, slice_;
	// The last position that a query reads; or the first pair that reads a key, and the position from which none does.
	u32 limit[2], end_position[2];
	float lse[2], delta[2];
	Sums sum_x, sum_y;

	MEMBER Tensor(u32 base, u32, const Scoring &scoring) : scoring(scoring), base_(base) {
		u32 warp = thread() / 32;
		row_ = warp % warps_down * 16 + lane() / 4, slice_ = warp / warps_down;
		UNROLL for (u32 j = 0; j < warp_columns / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++)
				sum_x[j][n] = sum_y[j][n] = 0;
	}
	MEMBER void ready() const {}
	MEMBER u32 row(u32 half) const { return row_ + 8 * half; }

	// slopes writes s, and for keys p, of the rows read from `at` on.
	MEMBER void slopes(u32 at, u32 end) {
		u32 lane = thread_here() % 32, base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		u32 thread_rows = base + row / 16 * 16 * pitch * 2 + row_fragment_offset<pitch>(lane);
		u32 read = base + x + slice * warp_read_rows * pitch * 2 + weight_fragment_offset<false, pitch>(lane);
		float score[warp_read_rows / 8][4], value_dot[warp_read_rows / 8][4];
		products<dim, warp_read_rows, pitch>(score, thread_rows, read); // of 16 own rows with the warp's part of the rows read
		products<dim, warp_read_rows, pitch>(value_dot, thread_rows + own_y, read + (y - x));
		UNROLL for (u32 j = 0; j < warp_read_rows / 8; j++)
			UNROLL for (u32 half = 0; half < 2; half++) {
				float weight[2], slope[2];
				u32 column = slice * warp_read_rows + j * 8 + lane % 4 * 2;
				UNROLL for (u32 n = 0; n < 2; n++) {
					u32 i = at + column + n;
					bool reads;
					float l = lse[half], d = delta[half];
					if constexpr (keys) {
						l = load(base + sums + (column + n) * 4), d = load(base + sums + (read_rows + column + n) * 4);
						u32 position = __builtin_bit_cast(u32, load(base + sums + (2 * read_rows + column + n) * 4));
						reads = (i >= limit[half]) & (i < end) & (position < end_position[half]);
					} else {
						reads = scoring.reads(limit[half], i);
					}
					float capped = scoring.capped(score[j][2 * half + n]), e = exponential(capped - l);
					float s = materialised(scoring.slope(capped) * e * (value_dot[j][2 * half + n] - d));
					weight[n] = reads ? e : 0, slope[n] = reads ? s : 0;
				}
				u32 to = base + s + ((row + 8 * half) * p_pitch + column) * 2;
				store(to, rounded(slope[0], slope[1]));
				if (keys)
					store(to + (p - s), rounded(weight[0], weight[1]));
			}
	}

	// add adds s · X, and for keys p · Y.
	MEMBER void add() {
		u32 lane = thread_here() % 32, base = opaque(base_), row = opaque(row_), slice = opaque(slice_);
		u32 factors = base + s + row / 16 * 16 * p_pitch * 2 + row_fragment_offset<p_pitch>(lane);
		u32 read = base + x + slice * warp_columns * 2 + weight_fragment_offset<true, pitch>(lane);
		add_products<read_rows, warp_columns, pitch>(sum_x, factors, read);
		if (keys)
			add_products<read_rows, warp_columns, pitch>(sum_y, factors + (p - s), read + (y - x));
	}

	MEMBER void write(float *to, u32 half, u32 size, float factor, const Sums &of) const {
		u32 c = opaque(slice_) * warp_columns + thread_here() % 4 * 2;
		UNROLL for (u32 j = 0; j < warp_columns / 8; j++)
			if (c + j * 8 < size)
				to[c + j * 8] = of[j][2 * half] * factor, to[c + j * 8 + 1] = of[j][2 * half + 1] * factor;
	}
};

GRAD_PACK(bf16, u16)

// The host has the same numbers, in attention.go.
#define QUERIES(dim, tile_rows, blocks, ...) \
	using Queries##dim = __VA_ARGS__; \
	GRAD(queries, bf16, Queries##dim, dim, tile_rows, blocks)
#define KEYS(dim, tile_rows, blocks, ...) \
	using Keys##dim = __VA_ARGS__; \
	GRAD(keys, bf16, Keys##dim, dim, tile_rows, blocks)
QUERIES(32, 64, 3, Slopes<false, 32, 4>)
QUERIES(64, 64, 3, Slopes<false, 64, 4>)
QUERIES(128, 64, 3, Slopes<false, 128, 4>)
QUERIES(256, 16, 1, Tensor<false, 256, 16, 4>)
KEYS(32, 64, 3, Slopes<true, 32, 4>)
KEYS(64, 64, 3, Slopes<true, 64, 4>)
KEYS(128, 64, 2, Slopes<true, 128, 4>)
KEYS(256, 16, 1, Tensor<true, 256, 16, 4>)
