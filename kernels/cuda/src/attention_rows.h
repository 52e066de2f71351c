// What the attention of many rows in bf16 and its gradient share: a warp has rows of its own, 16 for each of tall, and all that these
// read: what tensor cores give for scores are then the factors that they take for sums, and never leave registers.
#pragma once
#include "attention.h"

// The greater number, or NaN if there is one.
DEVICE float greatest(float a, float b) {
	float c;
	asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
	return c;
}

// The same bits as exponential(x), of what is not above 40, with few instructions: n comes from adding a number whose last bit is worth
// one, and is added to the exponent of the series with 64 more, which the factor 2^-64 takes away: one rounding, as there. The factor
// comes from the caller, since NaN is not kept here: it is NaN where x may be.
constexpr float factor_of_falling = 0x1p-64f;
DEVICE float falling(float x, float factor) {
	constexpr float ones = 0x1.8p23f + 64;
	float in = __nvvm_fmax_f(x, -104.0f), shifted = in * 0x1.715476p+0f + ones, n = shifted - ones;
	float e = series(fma(-n, -0x1.05c610p-29f, fma(-n, 0x1.62e430p-1f, in)));
	return __builtin_bit_cast(float, __builtin_bit_cast(u32, e) + (__builtin_bit_cast(u32, shifted) << 23)) * factor;
}

DEVICE bool any(bool x) { return __nvvm_vote_any_sync(~0u, x); }

// row_products are those of 16 · tall rows with `rows` others, of dim numbers both.
template <u32 dim, u32 tall, u32 rows, u32 pitch> DEVICE void row_products(float (*out)[rows / 8][4], u32 own, u32 others) {
	UNROLL for (u32 t = 0; t < tall; t++)
		UNROLL for (u32 j = 0; j < rows / 8; j++)
			UNROLL for (u32 n = 0; n < 4; n++)
				out[t][j][n] = 0;
	UNROLL for (u32 d = 0; d < dim; d += 16) {
		u32 a[tall][4], b[4];
		UNROLL for (u32 t = 0; t < tall; t++)
			load_matrices(a[t], own + (t * 16 * pitch + d) * 2);
		UNROLL for (u32 j = 0; j < rows / 8; j += 2) {
			load_matrices(b, others + (j * 8 * pitch + d) * 2);
			UNROLL for (u32 t = 0; t < tall; t++) {
				multiply(out[t][j], a[t], b);
				multiply(out[t][j + 1], a[t], b + 2);
			}
		}
	}
}

// add_row_products adds those of 16 rows of 16 factors with as many rows of columns.
template <u32 tall, u32 columns> DEVICE void add_row_products(float (*sums)[columns / 8][4], const u32 (*factors)[4], u32 rows) {
	UNROLL for (u32 j = 0; j < columns / 8; j += 2) {
		u32 b[4];
		load_transposed(b, rows + j * 16);
		UNROLL for (u32 t = 0; t < tall; t++) {
			multiply(sums[t][j], factors[t], b);
			multiply(sums[t][j + 1], factors[t], b + 2);
		}
	}
}

// The keys that all rows of a warp read: from since to sure.
struct Reads {
	u32 since, sure;
	MEMBER Reads(const Scores &f, const Pairs &pairs, u32 first, u32 rows) {
		u32 last = pairs.position(first + rows - 1);
		since = f.first(last), sure = pairs.position(first) + 1;
	}
	MEMBER bool all(u32 key, u32 keys) const { return (key >= since) & (key + keys <= sure); }
};
