// Floating point. Sums, products, quotients and roots are rounded once, to nearest, as IEEE 754 and the device do; a NaN result has the
// device's bits. What the device approximates (ex2, lg2, rsqrt, …) is rounded correctly here: the error of a card is one of the things
// that only a card shows.
#include "machine.h"

#include <math.h>
#include <string.h>

typedef float f32;
typedef double f64;

static inline f32 bits_f32(u32 b) {
	f32 f;
	memcpy(&f, &b, 4);
	return f;
}
static inline u32 f32_bits(f32 f) {
	u32 b;
	memcpy(&b, &f, 4);
	return b;
}
static inline f32 canonical(f32 f) { return f == f ? f : bits_f32(0x7fffffff); }

// Minimum and maximum, with -0 below 0; a number wins over NaN.
#define EXTREMES(type)                                                                                                           \
	static inline type least_##type(type a, type b) {                                                                            \
		if (a != a || b != b)                                                                                                    \
			return a == a ? a : b;                                                                                               \
		return a < b || (a == b && signbit(a)) ? a : b;                                                                          \
	}                                                                                                                            \
	static inline type greatest_##type(type a, type b) {                                                                         \
		if (a != a || b != b)                                                                                                    \
			return a == a ? a : b;                                                                                               \
		return a > b || (a == b && !signbit(a)) ? a : b;                                                                         \
	}
EXTREMES(f32) EXTREMES(f64)

#define UNARY(op, type, expression)                                                                                              \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1);                                                                                            \
		LANE_LOOP(type a = x[l]; d[l] = (expression));                                                                           \
	}
#define BINARY(op, type, expression)                                                                                             \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1), *y = REG(type, 2);                                                                         \
		LANE_LOOP(type a = x[l]; type b = y[l]; d[l] = (expression));                                                            \
	}
#define TERNARY(op, type, expression)                                                                                            \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1), *y = REG(type, 2), *z = REG(type, 3);                                                      \
		LANE_LOOP(type a = x[l]; type b = y[l]; type c = z[l]; d[l] = (expression));                                             \
	}

BINARY(add, f32, canonical(a + b)) BINARY(sub, f32, canonical(a - b)) BINARY(mul, f32, canonical(a * b))
BINARY(div, f32, canonical(a / b)) BINARY(min, f32, canonical(least_f32(a, b))) BINARY(max, f32, canonical(greatest_f32(a, b)))
BINARY(max_nan, f32, canonical(a != a || b != b ? a + b : greatest_f32(a, b)))
TERNARY(fma, f32, canonical(__builtin_fmaf(a, b, c)))
UNARY(sqrt, f32, canonical(__builtin_sqrtf(a))) UNARY(rcp, f32, canonical(1 / a))
UNARY(neg, f32, -a) UNARY(abs, f32, __builtin_fabsf(a))
BINARY(copysign, f32, __builtin_copysignf(b, a))
#undef UNARY
#define UNARY(op, type, expression)                                                                                              \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1);                                                                                            \
		SLOW_LANE_LOOP(type a = x[l]; d[l] = (expression));                                                                      \
	}
UNARY(rsqrt, f32, canonical((f32)(1 / sqrt(a)))) UNARY(ex2, f32, canonical((f32)exp2(a))) UNARY(lg2, f32, canonical((f32)log2(a)))
UNARY(sin, f32, canonical((f32)sin(a))) UNARY(cos, f32, canonical((f32)cos(a))) UNARY(tanh, f32, canonical((f32)tanh(a)))

BINARY(add, f64, a + b) BINARY(sub, f64, a - b) BINARY(mul, f64, a * b) BINARY(div, f64, a / b)
BINARY(min, f64, least_f64(a, b)) BINARY(max, f64, greatest_f64(a, b))
TERNARY(fma, f64, __builtin_fma(a, b, c))
UNARY(sqrt, f64, __builtin_sqrt(a)) UNARY(rcp, f64, 1 / a) UNARY(neg, f64, -a) UNARY(abs, f64, __builtin_fabs(a))
BINARY(copysign, f64, __builtin_copysign(b, a))

// flushed is the effect of .ftz on subnormal operands and results.
static inline f32 flushed(f32 a) { return __builtin_fabsf(a) < 0x1p-126f ? __builtin_copysignf(0, a) : a; }
UNARY(ex2_ftz, f32, flushed(canonical((f32)exp2(flushed(a)))))
UNARY(lg2_ftz, f32, flushed(canonical((f32)log2(flushed(a)))))
UNARY(rsqrt_ftz, f32, flushed(canonical((f32)(1 / sqrt(flushed(a))))))
UNARY(rcp_ftz, f32, flushed(canonical(1 / flushed(a))))
UNARY(sqrt_ftz, f32, flushed(canonical(__builtin_sqrtf(flushed(a)))))

// testp tests the class of a number; the result is a predicate.
#define TEST(op, expression)                                                                                                     \
	static void testp_##op(Warp *w, const Ins *i, u32 mask) {                                                                    \
		const f32 *x = REG(f32, 1);                                                                                              \
		u32 *d = REG(u32, 0), r = 0;                                                                                             \
		for (u32 l = 0; l < LANES; l++) {                                                                                        \
			u32 a = f32_bits(x[l]) & 0x7fffffff;                                                                                 \
			r |= (expression) ? 1u << l : 0;                                                                                     \
		}                                                                                                                        \
		*d = (*d & ~mask) | (r & mask);                                                                                          \
	}
TEST(finite, a < 0x7f800000) TEST(infinite, a == 0x7f800000) TEST(number, a <= 0x7f800000) TEST(notanumber, a > 0x7f800000)

#define ROUNDED(op, sizes32, sizes64) {#op ".rn.f32", op##_f32, sizes32}, {#op ".rn.f64", op##_f64, sizes64}
#define PLAIN(op, sizes32, sizes64) {#op ".f32", op##_f32, sizes32}, {#op ".f64", op##_f64, sizes64}

const Opcode float_opcodes[] = {
	PLAIN(add, "444", "888"), PLAIN(sub, "444", "888"), PLAIN(mul, "444", "888"), PLAIN(min, "444", "888"), PLAIN(max, "444", "888"),
	PLAIN(neg, "44", "88"), PLAIN(abs, "44", "88"), PLAIN(copysign, "444", "888"),
	ROUNDED(add, "444", "888"), ROUNDED(sub, "444", "888"), ROUNDED(mul, "444", "888"), ROUNDED(div, "444", "888"),
	ROUNDED(fma, "4444", "8888"), ROUNDED(sqrt, "44", "88"), ROUNDED(rcp, "44", "88"),
	{"max.NaN.f32", max_nan_f32, "444"}, {"mad.rn.f32", fma_f32, "4444"}, {"mad.rn.f64", fma_f64, "8888"},
	{"div.full.f32", div_f32, "444"}, {"div.approx.f32", div_f32, "444"}, {"rcp.approx.f32", rcp_f32, "44"},
	{"sqrt.approx.f32", sqrt_f32, "44"}, {"rsqrt.approx.f32", rsqrt_f32, "44"}, {"ex2.approx.f32", ex2_f32, "44"},
	{"lg2.approx.f32", lg2_f32, "44"}, {"sin.approx.f32", sin_f32, "44"}, {"cos.approx.f32", cos_f32, "44"},
	{"tanh.approx.f32", tanh_f32, "44"},
	{"ex2.approx.ftz.f32", ex2_ftz_f32, "44"}, {"lg2.approx.ftz.f32", lg2_ftz_f32, "44"}, {"rcp.approx.ftz.f32", rcp_ftz_f32, "44"},
	{"rsqrt.approx.ftz.f32", rsqrt_ftz_f32, "44"}, {"sqrt.approx.ftz.f32", sqrt_ftz_f32, "44"},
	{"testp.finite.f32", testp_finite, "p4"}, {"testp.infinite.f32", testp_infinite, "p4"},
	{"testp.number.f32", testp_number, "p4"}, {"testp.notanumber.f32", testp_notanumber, "p4"},
	{0},
};
