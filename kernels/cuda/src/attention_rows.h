// Shared by attention of many rows in bf16 and its gradient: each warp has 16 own rows and reads all others. The fragments that tensor
// cores return for scores are then the factors that they take for sums, and never leave registers.
#pragma once
#include "attention.h"

// The maximum, or NaN if either is NaN.
DEVICE float greatest(float a, float b) {
	float c;
	asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
	return c;
}

// The bits of exponential(x) for x <= 40, with few instructions. n is rounded by adding a number whose last bit is worth one; the
// exponent of the series grows by n + 64, and the factor 2^-64 takes the 64 away, with one rounding, as in exponential. NaN is lost here,
// so the caller passes the factor, which is NaN where x may be.
constexpr float fast_exponential_factor = 0x1p-64f;
DEVICE float fast_exponential(float x, float factor) {
	constexpr float ones = 0x1.8p23f + 64;
	float clamped = __nvvm_fmax_f(x, -104.0f), shifted = clamped * 0x1.715476p+0f + ones, n = shifted - ones;
	float e = exp_series(fma(-n, -0x1.05c610p-29f, fma(-n, 0x1.62e430p-1f, clamped)));
	return __builtin_bit_cast(float, __builtin_bit_cast(u32, e) + (__builtin_bit_cast(u32, shifted) << 23)) * factor;
}

DEVICE bool any(bool x) { return __nvvm_vote_any_sync(~0u, x); }

// The keys [begin, end) that all rows of a warp read.
struct Reads {
	u32 begin, end;
	MEMBER Reads(const Scoring &scoring, const Pairs &pairs, u32 first, u32 rows) {
		u32 last = pairs.position(first + rows - 1);
		begin = scoring.first(last), end = pairs.position(first) + 1;
	}
	MEMBER bool all(u32 key, u32 keys) const { return (key >= begin) & (key + keys <= end); }
};
