// The gradient of attention in bf16, for attention_grad_bf16.cu: each warp has 16 rows, as in attention_many.h.
#pragma once
#include "attention_grad.h"
#include "attention_rows.h"

// A tile has 16 own rows (X' and Y') for each of its warps, and reads 32 rows (X and Y) at a time, in two stages: the next rows are
// copied while the current ones are used.
template <bool keys_, u32 dim_, u32 warps_down_> struct Slopes {
	typedef u16 Number;
	static constexpr bool keys = keys_;
	static constexpr u32 dim = dim_, warps_down = warps_down_, read_rows = 32, first_multiple = 64, stages = 2, warp_rows = 16,
		tile_rows = warp_rows * warps_down, threads = 32 * warps_down, pitch = dim + 8, thread_rows = 2;
	// Addresses in shared memory, in bytes: X' at 0, Y', then for each stage X, Y, and for keys lse, delta and positions of the rows read.
	static constexpr u32 own_y = tile_rows * pitch * 2, x = 2 * own_y, y = x + read_rows * pitch * 2, sums = y + read_rows * pitch * 2,
		stage = sums + (keys ? 3 * read_rows * 4 : 0) - x, bytes = x + stages * stage;
	static_assert(bytes <= 99 << 10 && (!keys || threads >= 2 * read_rows));

	Scoring scoring;
	u32 base_, from_, to_; // all rows of the warp read [from, to); for keys unless a window excludes it
	// The last position that a query reads; or the first pair that reads a key, and the position from which none does.
	u32 limit[thread_rows], end_position[thread_rows];
	float lse[thread_rows], delta[thread_rows];
	float sum_x[dim / 8][4], sum_y[keys ? dim / 8 : 1][4];

	MEMBER Slopes(u32 base, u32, const Scoring &scoring) : scoring(scoring), base_(base) {
		UNROLL for (u32 j = 0; j < dim / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++) {
				sum_x[j][n] = 0;
				if constexpr (keys)
					sum_y[j][n] = 0;
			}
	}
	static MEMBER u32 row(u32 i) { return thread_here() / 32 * warp_rows + thread_here() % 32 / 4 + 8 * i; }

	// ready is called once the limits are set.
	MEMBER void ready() {
		u32 low = limit[0], high = limit[0];
		UNROLL for (u32 i = 1; i < thread_rows; i++)
			low = Least::of(low, limit[i]), high = Greatest::of(high, limit[i]);
		low = over_warp<Least>(low), high = over_warp<Greatest>(high);
		from_ = keys ? high : scoring.first(high), to_ = keys ? ~0u : low + 1;
	}

	// step adds the rows from `at` up to end.
	MEMBER void step(u32 at, u32 end, u32 now) {
		u32 lane = thread_here() % 32, base = opaque(base_);
		u32 own_rows = base + thread_here() / 32 * warp_rows * pitch * 2 + row_fragment_offset<pitch>(lane);
		u32 read = base + now + weight_fragment_offset<false, pitch>(lane);
		float weight[read_rows / 8][4], slope[read_rows / 8][4]; // which begin as scores, and as products of dout and values
		products<dim, read_rows, pitch>(weight, own_rows, read + x);
		products<dim, read_rows, pitch>(slope, own_rows + own_y, read + y);
		slopes(weight, slope, base + now + sums);
		mask(weight, slope, at, end, base + now + sums);
		u32 columns = base + now + weight_fragment_offset<true, pitch>(lane);
		UNROLL for (u32 g = 0; g < read_rows / 16; g++) {
			add<dim>(sum_x, slope, g, columns + x + g * 16 * pitch * 2);
			if constexpr (keys)
				add<dim>(sum_y, weight, g, columns + y + g * 16 * pitch * 2);
		}
	}

	template <u32 columns> static MEMBER void add(float (*sums)[4], const float (*of)[4], u32 g, u32 from) {
		u32 factors[4];
		UNROLL for (u32 i = 0; i < 4; i++)
			factors[i] = rounded(of[2 * g + i / 2][i % 2 * 2], of[2 * g + i / 2][i % 2 * 2 + 1]);
		add_products<columns>(sums, factors, from);
	}

	// for_each_product calls f for every product of own rows and rows read, with their lse and delta.
	template <class F> MEMBER void for_each_product(u32 numbers, F f) {
		u32 c = thread_here() % 4 * 2;
		UNROLL for (u32 j = 0; j < read_rows / 8; j++) {
			float row_lse[2], row_delta[2];
			if constexpr (keys) {
				load_pair(&row_lse[0], &row_lse[1], numbers + (j * 8 + c) * 4);
				load_pair(&row_delta[0], &row_delta[1], numbers + (read_rows + j * 8 + c) * 4);
			}
			UNROLL for (u32 n = 0; n < 4; n++)
				f(j, n, keys ? row_lse[n % 2] : lse[n / 2], keys ? row_delta[n % 2] : delta[n / 2]);
		}
	}

	// slopes turns scores into weights, and products into gradients of the weights.
	MEMBER void slopes(float (*weight)[4], float (*slope)[4], u32 numbers) {
		if (scoring.cap != 0) {
			for_each_product(numbers, [&](u32 j, u32 n, float row_lse, float row_delta) {
				float &w = weight[j][n], &s = slope[j][n], capped = materialised(scoring.capped(w));
				w = exponential(capped - row_lse), s = materialised(scoring.slope(capped) * w * (s - row_delta));
			});
			return;
		}
		float max_score = lowest;
		for_each_product(numbers, [&](u32 j, u32 n, float row_lse, float) {
			weight[j][n] -= row_lse, max_score = greatest(max_score, weight[j][n]);
		});
		if (any(!(max_score <= 40))) // masked, or NaN
			for_each_product(numbers, [&](u32 j, u32 n, float, float) { weight[j][n] = exponential(weight[j][n]); });
		else
			for_each_product(numbers, [&](u32 j, u32 n, float, float) { weight[j][n] = fast_exponential(weight[j][n], fast_exponential_factor); });
		for_each_product(numbers, [&](u32 j, u32 n, float, float row_delta) { slope[j][n] = weight[j][n] * (slope[j][n] - row_delta); });
	}

	MEMBER void mask(float (*weight)[4], float (*slope)[4], u32 at, u32 end, u32 numbers) {
		bool all = (at >= from_) & (at + read_rows <= to_);
		if (keys)
			all &= (at + read_rows <= end) & (scoring.window >= 0x7fffffff);
		if (all)
			return;
		u32 c = thread_here() % 4 * 2;
		UNROLL for (u32 j = 0; j < read_rows / 8; j++)
			UNROLL for (u32 n = 0; n < 2; n++) {
				u32 i = j * 8 + c + n, position = 0;
				if constexpr (keys)
					position = __builtin_bit_cast(u32, load(numbers + (2 * read_rows + i) * 4));
				UNROLL for (u32 half = 0; half < 2; half++) {
					bool reads = scoring.reads(limit[half], at + i);
					if constexpr (keys)
						reads = (at + i >= limit[half]) & (at + i < end) & (position < end_position[half]);
					float &w = weight[j][2 * half + n], &s = slope[j][2 * half + n];
					w = reads ? w : 0, s = reads ? s : 0;
				}
			}
	}

	template <class S> static MEMBER void write(float *to, u32 i, u32 size, float factor, const S &of) {
		u32 c = thread_here() % 4 * 2;
		UNROLL for (u32 j = 0; j < dim / 8; j++)
			if (c + j * 8 < size) {
				const float *x = of[j] + i * 2;
				to[c + j * 8] = x[0] * factor, to[c + j * 8 + 1] = x[1] * factor;
			}
	}
};
