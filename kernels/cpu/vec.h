// Vectors of VL floats and the few functions of one variable, in terms of the compiler's vector types.

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline, unused))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef float vf_any __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * VL), aligned(1), may_alias));

INLINE vf load(const float *p) { return *(const vf_any *)p; }
INLINE void store(float *p, vf v) { *(vf_any *)p = v; }

// Writes around the caches to an aligned address, if there is an instruction for it. A task that does so must end with streams_end, so
// that other threads see the numbers after it.
#if defined(__AVX512F__) && VL == 16
INLINE void stream(float *p, vf v) { __builtin_ia32_movntps512(p, v); }
#elif defined(__AVX__) && VL == 8
INLINE void stream(float *p, vf v) { __builtin_ia32_movntps256(p, v); }
#else
INLINE void stream(float *p, vf v) { store(p, v); }
#endif

INLINE void streams_end(void)
{
#ifdef __AVX__
	__builtin_ia32_sfence();
#endif
}

// Lanes of two vectors of one type, by index: those of b follow those of a.
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__typeof__(_Generic((a), vf: (vi){0}, default: (a)))){__VA_ARGS__})
#endif

INLINE vi loadi(const void *p) { return *(const vi_any *)p; }
INLINE vf splat(float x) { return x - (vf){0}; } // x − 0 is x, also for −0

// a·b + c, fused on every processor that can. Nothing else is fused, because which operations a compiler finds to fuse differs, and the
// bits must not depend on it. (With -std=c11 gcc fuses nothing.)
INLINE vf fused(vf a, vf b, vf c)
{
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
	return a * b + c;
#elif defined(__AVX512F__) && VL == 16
	return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
#elif defined(__FMA__) && VL == 8
	return __builtin_ia32_vfmaddps256(a, b, c);
#elif defined(__aarch64__)
	return vfmaq_f32(c, a, b);
#else
	return a * b + c;
#endif
}

INLINE float fused_float(float a, float b, float c)
{
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
	return a * b + c;
#elif defined(__FMA__) || defined(__aarch64__)
	return __builtin_fmaf(a, b, c);
#else
	return a * b + c;
#endif
}

INLINE double fused_double(double a, double b, double c)
{
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
	return a * b + c;
#elif defined(__FMA__) || defined(__aarch64__)
	return __builtin_fma(a, b, c);
#else
	return a * b + c;
#endif
}

INLINE vf blend(vi mask, vf yes, vf no) { return (vf)(((vi)yes & mask) | ((vi)no & ~mask)); }

// Returns b if a and b are equal or one of them is NaN, like the instructions, which gcc does not generate by itself.
INLINE vf vmax(vf a, vf b)
{
#if defined(__AVX512F__) && VL == 16 && !defined(__clang__)
	return __builtin_ia32_maxps512_mask(a, b, a, -1, 4);
#elif defined(__AVX__) && VL == 8
	return __builtin_ia32_maxps256(a, b);
#else
	return blend((vi)(a > b), a, b);
#endif
}

INLINE vf vmin(vf a, vf b)
{
#if defined(__AVX512F__) && VL == 16 && !defined(__clang__)
	return __builtin_ia32_minps512_mask(a, b, a, -1, 4);
#elif defined(__AVX__) && VL == 8
	return __builtin_ia32_minps256(a, b);
#else
	return blend((vi)(a < b), a, b);
#endif
}

// Prefetches one to three cache lines.
INLINE void prefetch_lines(const char *p, const int lines)
{
	__builtin_prefetch(p);
	if (lines > 1)
		__builtin_prefetch(p + 64);
	if (lines > 2)
		__builtin_prefetch(p + 128);
}

INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// r[VL][VL] is transposed by interleaving halves, log2(VL) times.
#if VL == 16
#define ZIP_LOW(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b) SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VL == 8
#define ZIP_LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define ZIP_LOW(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#endif

// The same for pairs of lanes. CROSS_HALVES turns each pair of lanes, with halves a b, c d, into the lanes a c, b d.
typedef int64_t vq __attribute__((vector_size(4 * VL)));
typedef int16_t vh __attribute__((vector_size(4 * VL)));
#define CROSSED(i) 4 * (i) + 3, 4 * (i) + 1, 4 * (i) + 2, 4 * (i)
#if VL == 16
#define ZIP_PAIRS_LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_PAIRS_HIGH(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define CROSS_HALVES(a) SHUFFLE(a, a, CROSSED(0), CROSSED(1), CROSSED(2), CROSSED(3), CROSSED(4), CROSSED(5), CROSSED(6), CROSSED(7))
#elif VL == 8
#define ZIP_PAIRS_LOW(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define ZIP_PAIRS_HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#define CROSS_HALVES(a) SHUFFLE(a, a, CROSSED(0), CROSSED(1), CROSSED(2), CROSSED(3))
#else
#define ZIP_PAIRS_LOW(a, b) SHUFFLE(a, b, 0, 2)
#define ZIP_PAIRS_HIGH(a, b) SHUFFLE(a, b, 1, 3)
#define CROSS_HALVES(a) SHUFFLE(a, a, CROSSED(0), CROSSED(1))
#endif

// The even and the odd lanes of two vectors.
#if VL == 16
#define EVEN_LANES(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_LANES(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#elif VL == 8
#define EVEN_LANES(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD_LANES(a, b) SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#else
#define EVEN_LANES(a, b) SHUFFLE(a, b, 0, 2, 4, 6)
#define ODD_LANES(a, b) SHUFFLE(a, b, 1, 3, 5, 7)
#endif

INLINE void transpose(vi r[VL])
{
	UNROLL for (int stage = 1; stage < VL; stage *= 2)
	{
		vi z[VL];
		UNROLL for (int i = 0; i < VL / 2; i++)
		{
			z[2 * i] = ZIP_LOW(r[i], r[i + VL / 2]);
			z[2 * i + 1] = ZIP_HIGH(r[i], r[i + VL / 2]);
		}
		UNROLL for (int i = 0; i < VL; i++) r[i] = z[i];
	}
}

// A sum or maximum along a row has 16 lanes in every variant: lane j takes elements j, j+16, ….
enum { LANES = 16, LANE_VECTORS = LANES / VL };

typedef struct {
	vf v[LANE_VECTORS];
} lanes;

INLINE lanes lanes_of(float x)
{
	lanes l;
	UNROLL for (int i = 0; i < LANE_VECTORS; i++) l.v[i] = splat(x);
	return l;
}

// The reduction tree of all sums: halves are added to halves.
INLINE float lanes_sum(const lanes *l)
{
	float t[LANES];
	UNROLL for (int i = 0; i < LANE_VECTORS; i++) store(t + i * VL, l->v[i]);
	UNROLL for (int half = LANES / 2; half; half /= 2)
		for (int j = 0; j < half; j++) t[j] += t[j + half];
	return t[0];
}

INLINE float lanes_max(const lanes *l)
{
	float t[LANES];
	UNROLL for (int i = 0; i < LANE_VECTORS; i++) store(t + i * VL, l->v[i]);
	UNROLL for (int half = LANES / 2; half; half /= 2)
		for (int j = 0; j < half; j++) t[j] = t[j] > t[j + half] ? t[j] : t[j + half];
	return t[0];
}

// x · 2^n for integers n from −126 to 128, but 0 where y is below a limit; shifted is n + 1.5·2^23.
INLINE vf times_power_from(vf x, vf n, vf shifted, vf y, float limit)
{
#if defined(__AVX512F__) && VL == 16
	(void)shifted;
	return __builtin_ia32_scalefps512_mask(x, n, splat(0), __builtin_ia32_cmpps512_mask(y, splat(limit), 5, -1, 4), 4); // 5: not less
#else
	(void)n;
	vi e = (vi)shifted - 0x4b400000, half = e >> 1; // in two factors, as 2^128 is not a float
	x = x * (vf)((half + 127) << 23);
	return blend((vi)(y < limit), splat(0), x * (vf)((e - half + 127) << 23));
#endif
}

// e^x for x up to 89, within 1.1 units in the last place. exp(0) is 1, exp(−∞) is 0, subnormal results are 0, NaN stays NaN.
//
// x = n·ln 2 + r with |r| ≤ ½ ln 2; ln 2 in two parts, the first short enough that n·LN2_HIGH is exact.
INLINE vf vexp_low(vf x)
{
	const float round = 12582912.0f; // 1.5·2^23: adding it leaves the nearest integer in the low bits
	const float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f, least = -87.3365f;
	// vmax keeps NaN. Below `least` the result is 0, and computing a subnormal one, only to discard it, would take a processor long.
	vf clamped = vmax(splat(least), x);
	vf shifted = fused(clamped, splat(1.44269504f), splat(round));
	vf n = shifted - round;
	vf r = fused(n, splat(-ln2_high), clamped);
	r = fused(n, splat(-ln2_low), r);
	vf p = splat(1.0f / 5040);
	p = fused(p, r, splat(1.0f / 720));
	p = fused(p, r, splat(1.0f / 120));
	p = fused(p, r, splat(1.0f / 24));
	p = fused(p, r, splat(1.0f / 6));
	p = fused(p, r, splat(0.5f));
	vf rr = r * r;
	p = fused(p, rr, r);
	p = p + 1.0f;
	return times_power_from(p, n, shifted, x, least);
}

// The same for every x; +∞ if it exceeds the largest float.
INLINE vf vexp(vf x) { return vexp_low(vmin(splat(89.0f), x)); }

// e^x of one number, with the bits of vexp.
INLINE float exp1(float x)
{
	vf v = vexp(splat(x));
	return v[0];
}

// tanh x within 1.2 units in the last place: up to 1 as the interpolation x + x³·Q(x²), beyond as 1 − 2/(e^2x + 1). NaN
// stays NaN.
INLINE vf vtanh(vf x)
{
	vf size = vmax(x, -x), square = x * x, cube = square * x;
	vf q = splat(-0.000420695494f);
	q = fused(q, square, splat(0.00251045933f));
	q = fused(q, square, splat(-0.0082189219f));
	q = fused(q, square, splat(0.0216601154f));
	q = fused(q, square, splat(-0.0539347889f));
	q = fused(q, square, splat(0.133331285f));
	q = fused(q, square, splat(-0.333333313f));
	vf near = fused(q, cube, x);
	vf far = 1.0f - 2.0f / (vexp(size + size) + 1.0f);
	far = blend((vi)(x < 0.0f), -far, far);
	return blend((vi)(size < 1.0f), near, far);
}

// Caps scores and logits: cap · tanh(x / cap).
INLINE vf soft_cap(vf x, float cap) { return vtanh(x / cap) * cap; }

// ln x for normal x > 0 (or NaN), to a few units in the last place of a double: what a float rounded from it
// needs. x = 2^e·m with m in [√½, √2); ln m = 2·artanh((m−1)/(m+1)).
static inline __attribute__((unused)) double log1(double x)
{
	if (x != x)
		return x;
	int64_t bits;
	memcpy(&bits, &x, 8);
	int64_t e = ((bits - 0x3fe6a09e667f3bcd) >> 52);
	bits -= e << 52;
	double m;
	memcpy(&m, &bits, 8);
	double s = (m - 1) / (m + 1), q = s * s;
	double p = 1.0 / 23;
	for (int i = 21; i > 1; i -= 2) p = fused_double(p, q, 1.0 / i);
	double twice = 2 * s, tail = q * p;
	double lnm = fused_double(twice, tail, twice);
	return fused_double(e, 0.69314718055994530942, lnm);
}
