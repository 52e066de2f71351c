// Shared by scoring and drawing. A row of logits is processed in chunks, each of which is reduced to three numbers; those of all chunks
// give one distribution. Both kinds of kernels use the same functions, so that a drawn token has the log-probability that it is scored
// at.
#pragma once
#include "kernel.h"

// Logits of a chunk, and groups of four per thread. The host has the same numbers, in backend_head.go.
constexpr u32 chunk = 4096, fours = chunk / threads / 4;

DEVICE u32 width_of(u32 c, u32 vocabulary) { return min(chunk, vocabulary - c * chunk); }

// The index of the first number of a thread's k-th group of four.
DEVICE u32 first_column(u32 k) { return 4 * (k * threads + thread()); }

// The statistics of one chunk of a row: the maximum logit m, Σ exp(l − m), and Σ exp(l − m)·(l − m).
struct Partial {
	float max, sum, moment;
};

// Form transforms a logit: soft cap, if any, then scale. Minus zero becomes zero, since draws order logits by their bits.
struct LogitTransform {
	float cap, scale;

	__device__ __attribute__((always_inline)) float apply(float logit) const {
		return (cap != 0 ? hyperbolic_tangent(logit / cap) * cap : logit) * scale + 0;
	}
	// The derivative of a capped and scaled logit with respect to the raw logit, but for the scale.
	__device__ __attribute__((always_inline)) float slope(float capped) const {
		float t = capped / (cap * scale);
		return cap != 0 ? 1 - t * t : 1;
	}
};

// A transformed chunk of logits, padded with excluded ones.
DEVICE void load_chunk(Four *l, const float *logits, u32 width, LogitTransform transform) {
	bool wide = aligned(logits);
	UNROLL for (u32 k = 0; k < fours; k++) {
		l[k] = load_four(logits, first_column(k), width, wide);
		UNROLL for (u32 i = 0; i < 4; i++)
			l[k][i] = first_column(k) + i < width ? transform.apply(l[k][i]) : -__builtin_inff();
	}
}

// The partial of a chunk, whose logits become exp(l − m). All threads get it.
DEVICE Partial reduce(Four *l, u32 width) {
	float max = -__builtin_inff(), sum = 0, moment = 0;
	UNROLL for (u32 k = 0; k < fours; k++)
		UNROLL for (u32 i = 0; i < 4; i++)
			max = Greatest::of(max, l[k][i]);
	max = over_block<Greatest>(max);
	UNROLL for (u32 k = 0; k < fours; k++)
		if (k * 4 * threads < width)
			UNROLL for (u32 i = 0; i < 4; i++) {
				float shifted = l[k][i] - max, e = exponential(shifted);
				l[k][i] = e;
				sum += e;
				moment += e * (shifted < -200 ? -200 : shifted); // 0 · (−200), as 0 · (−∞) would be NaN
			}
	return {max, over_block(sum), over_block(moment)};
}

// The statistics of a whole row, relative to its maximum logit.
struct Total {
	float max;
	double sum, moment;
};

DEVICE float largest(const Partial *partials, u32 chunks) {
	float max = -__builtin_inff();
	for (u32 c = lane(); c < chunks; c += 32)
		max = Greatest::of(max, partials[c].max);
	return over_warp<Greatest>(max);
}

// The total of the chunks, in ascending order. All lanes get it.
DEVICE Total total(const Partial *partials, u32 chunks) {
	Total t = {largest(partials, chunks), 0, 0};
	for (u32 c = 0; c < chunks; c++) {
		float shifted = partials[c].max - t.max;
		double shrink = (double)exponential(shifted);
		if (shrink == 0)
			continue;
		t.sum += (double)partials[c].sum * shrink;
		t.moment += ((double)partials[c].moment + (double)partials[c].sum * (double)shifted) * shrink;
	}
	return t;
}

// The natural logarithm of a number that is neither negative nor subnormal, within one unit in the last place: x is 2^n·m with m between
// 1/√2 and √2, and log m is the series of 2·artanh((m − 1)/(m + 1)).
DEVICE double logarithm(double x) {
	u64 bits = __builtin_bit_cast(u64, x);
	int n = (int)(bits >> 52) - 1023;
	double m = __builtin_bit_cast(double, (bits & ~(0xfffull << 52)) | 0x3ffull << 52);
	bool high = m > 0x1.6a09e667f3bcdp+0;
	m = high ? m / 2 : m, n = high ? n + 1 : n;
	double s = (m - 1) / (m + 1), z = s * s, series = 1.0 / 23;
	UNROLL for (int k = 21; k > 1; k -= 2)
		series = fma(series, z, 1.0 / k);
	double log = fma((double)n, 0x1.62e42fefa39efp-1, fma(2 * s * z, series, 2 * s) + (double)n * 0x1.abc9e3b39803fp-56);
	return x < __builtin_inf() ? log : x; // else infinite or NaN
}

DEVICE float log_probability(float logit, float max, double log_sum) { return (float)((double)logit - ((double)max + log_sum)); }
