// The gradient of attention in bf16, for attention_grad_bf16.cu: each warp has 16 rows, as in attention_many.h.
#pragma once
#include "attention_grad.h"
#include "attention_rows.h"

// A tile has 16 own rows (X' and Y') for each of down warps, and reads 32 rows (X and Y) at a time, in two stages: the next rows are
// copied while the current ones are used.
template <bool keys_, u32 dim_, u32 down_> struct Slopes {
	typedef u16 Number;
	static constexpr bool keys = keys_;
	static constexpr u32 dim = dim_, down = down_, deep = 32, begin = 64, stages = 2, own = 16, high = own * down, threads = 32 * down,
		pitch = dim + 8, mine = 2;
	// Addresses in shared memory, in bytes: X' at 0, Y', then for each stage X, Y, and for keys lse, delta and positions of the rows read.
	static constexpr u32 own_y = high * pitch * 2, x = 2 * own_y, y = x + deep * pitch * 2, sums = y + deep * pitch * 2,
		stage = sums + (keys ? 3 * deep * 4 : 0) - x, bytes = x + stages * stage;
	static_assert(bytes <= 99 << 10 && (!keys || threads >= 2 * deep));

	Scores f;
	u32 base_, from_, to_; // all rows of the warp read [from, to); for keys unless a window excludes it
	// The last position that a query reads; or the first pair that reads a key, and the position from which none does.
	u32 limit[mine], above[mine];
	float lse[mine], delta[mine];
	float of_x[dim / 8][4], of_y[keys ? dim / 8 : 1][4];

	MEMBER Slopes(u32 base, u32, const Scores &f) : f(f), base_(base) {
		UNROLL for (u32 j = 0; j < dim / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++) {
				of_x[j][n] = 0;
				if constexpr (keys)
					of_y[j][n] = 0;
			}
	}
	static MEMBER u32 row(u32 i) { return thread_here() / 32 * own + thread_here() % 32 / 4 + 8 * i; }

	// ready is called once the limits are set.
	MEMBER void ready() {
		u32 low = limit[0], high = limit[0];
		UNROLL for (u32 i = 1; i < mine; i++)
			low = Least::of(low, limit[i]), high = Greatest::of(high, limit[i]);
		low = over_warp<Least>(low), high = over_warp<Greatest>(high);
		from_ = keys ? high : f.first(high), to_ = keys ? ~0u : low + 1;
	}

	// step adds the rows from `at` up to end.
	MEMBER void step(u32 at, u32 end, u32 now) {
		u32 lane = thread_here() % 32, base = here(base_);
		u32 mine = base + thread_here() / 32 * own * pitch * 2 + row_fragment_offset<pitch>(lane);
		u32 read = base + now + weight_fragment_offset<false, pitch>(lane);
		float weight[deep / 8][4], slope[deep / 8][4]; // which begin as scores, and as products of dout and values
		products<dim, deep, pitch>(weight, mine, read + x);
		products<dim, deep, pitch>(slope, mine + own_y, read + y);
		slopes(weight, slope, base + now + sums);
		mask(weight, slope, at, end, base + now + sums);
		u32 columns = base + now + weight_fragment_offset<true, pitch>(lane);
		UNROLL for (u32 g = 0; g < deep / 16; g++) {
			add<dim>(of_x, slope, g, columns + x + g * 16 * pitch * 2);
			if constexpr (keys)
				add<dim>(of_y, weight, g, columns + y + g * 16 * pitch * 2);
		}
	}

	template <u32 columns> static MEMBER void add(float (*sums)[4], const float (*of)[4], u32 g, u32 from) {
		u32 factors[4];
		UNROLL for (u32 i = 0; i < 4; i++)
			factors[i] = rounded(of[2 * g + i / 2][i % 2 * 2], of[2 * g + i / 2][i % 2 * 2 + 1]);
		add_products<columns>(sums, factors, from);
	}

	// each calls f for every product of own rows and rows read, with their lse and delta.
	template <class F> MEMBER void each(u32 numbers, F f) {
		u32 c = thread_here() % 4 * 2;
		UNROLL for (u32 j = 0; j < deep / 8; j++) {
			float l[2], d[2];
			if constexpr (keys) {
				load_pair(&l[0], &l[1], numbers + (j * 8 + c) * 4);
				load_pair(&d[0], &d[1], numbers + (deep + j * 8 + c) * 4);
			}
			UNROLL for (u32 n = 0; n < 4; n++)
				f(j, n, keys ? l[n % 2] : lse[n / 2], keys ? d[n % 2] : delta[n / 2]);
		}
	}

	// slopes turns scores into weights, and products into gradients of the weights.
	MEMBER void slopes(float (*weight)[4], float (*slope)[4], u32 numbers) {
		if (f.cap != 0) {
			each(numbers, [&](u32 j, u32 n, float l, float d) {
				float &w = weight[j][n], &s = slope[j][n], bent = materialised(f.bent(w));
				w = exponential(bent - l), s = materialised(f.slope(bent) * w * (s - d));
			});
			return;
		}
		float most = lowest;
		each(numbers, [&](u32 j, u32 n, float l, float) { weight[j][n] -= l, most = greatest(most, weight[j][n]); });
		if (any(!(most <= 40))) // masked, or NaN
			each(numbers, [&](u32 j, u32 n, float, float) { weight[j][n] = exponential(weight[j][n]); });
		else
			each(numbers, [&](u32 j, u32 n, float, float) { weight[j][n] = falling(weight[j][n], factor_of_falling); });
		each(numbers, [&](u32 j, u32 n, float, float d) { slope[j][n] = weight[j][n] * (slope[j][n] - d); });
	}

	MEMBER void mask(float (*weight)[4], float (*slope)[4], u32 at, u32 end, u32 numbers) {
		bool all = (at >= from_) & (at + deep <= to_);
		if (keys)
			all &= (at + deep <= end) & (f.window >= 0x7fffffff);
		if (all)
			return;
		u32 c = thread_here() % 4 * 2;
		UNROLL for (u32 j = 0; j < deep / 8; j++)
			UNROLL for (u32 n = 0; n < 2; n++) {
				u32 i = j * 8 + c + n, position = 0;
				if constexpr (keys)
					position = __builtin_bit_cast(u32, load(numbers + (2 * deep + i) * 4));
				UNROLL for (u32 half = 0; half < 2; half++) {
					bool reads = f.reads(limit[half], at + i);
					if constexpr (keys)
						reads = (at + i >= limit[half]) & (at + i < end) & (position < above[half]);
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
