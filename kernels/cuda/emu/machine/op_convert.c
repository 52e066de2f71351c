// Conversions. Between integers, and from floats to them, registers may be wider than the type (w in the table): Ins.width is
// the result's, Ins.bytes the operand's.
#include "machine.h"

#include <math.h>
#include <string.h>

typedef float f32;
typedef double f64;

static inline u64 get(const Warp *w, const Ins *i, u32 l) {
	u64 v = 0;
	copy_number(&v, w->file + i->operand[1] + l * i->bytes, i->bytes);
	return v;
}
static inline void put(Warp *w, const Ins *i, u32 l, u64 v) { copy_number(w->file + i->operand[0] + l * i->width, &v, i->width); }

#define INTEGER(to, from)                                                                                                        \
	static void to##_##from(Warp *w, const Ins *i, u32 mask) {                                                                   \
		if (i->bytes == sizeof(from) && i->width == sizeof(to)) {                                                                \
			to *d = REG(to, 0);                                                                                                  \
			const from *x = REG(from, 1);                                                                                        \
			LANE_LOOP(d[l] = (to)x[l]);                                                                                          \
		} else {                                                                                                                 \
			SLOW_LANE_LOOP(put(w, i, (u32)l, (u64)(to)(from)get(w, i, (u32)l)));                                                      \
		}                                                                                                                        \
	}
#define TO_EACH(from) INTEGER(u8, from) INTEGER(s8, from) INTEGER(u16, from) INTEGER(s16, from) INTEGER(u32, from) INTEGER(s32, from) \
	INTEGER(u64, from) INTEGER(s64, from)
TO_EACH(u8) TO_EACH(s8) TO_EACH(u16) TO_EACH(s16) TO_EACH(u32) TO_EACH(s32) TO_EACH(u64) TO_EACH(s64)

// Float to integer: rounded, then clamped to the type's range; nan is the result for NaN.
#define TRUNCATE(mode, round, to, lowest, highest, from, nan)                                                                    \
	static void to##_##mode##_##from(Warp *w, const Ins *i, u32 mask) {                                                          \
		const from *x = REG(from, 1);                                                                                            \
		SLOW_LANE_LOOP(f64 a = round((f64)x[l]); put(w, i, (u32)l, a != a ? nan : a <= (f64)lowest ? (u64)lowest                      \
			: a >= (f64)highest ? (u64)highest : (u64)(to)a));                                                                   \
	}
#define MODES(to, lowest, highest, from, nan)                                                                                    \
	TRUNCATE(rni, rint, to, lowest, highest, from, nan)                                                                          \
	TRUNCATE(rzi, trunc, to, lowest, highest, from, nan)                                                                         \
	TRUNCATE(rmi, floor, to, lowest, highest, from, nan)                                                                         \
	TRUNCATE(rpi, ceil, to, lowest, highest, from, nan)
MODES(u16, 0, UINT16_MAX, f32, 0) MODES(s16, INT16_MIN, INT16_MAX, f32, 0)
MODES(u32, 0, UINT32_MAX, f32, 0) MODES(s32, INT32_MIN, INT32_MAX, f32, 0)
MODES(u64, 0, UINT64_MAX, f32, 1ull << 63) MODES(s64, INT64_MIN, INT64_MAX, f32, 1ull << 63)
MODES(u32, 0, UINT32_MAX, f64, 1ull << 31) MODES(s32, INT32_MIN, INT32_MAX, f64, 1ull << 31)
MODES(u64, 0, UINT64_MAX, f64, 1ull << 63) MODES(s64, INT64_MIN, INT64_MAX, f64, 1ull << 63)

#define FLOATING(to, from)                                                                                                       \
	static void to##_##from(Warp *w, const Ins *i, u32 mask) {                                                                   \
		to *d = REG(to, 0);                                                                                                      \
		if (i->bytes == sizeof(from)) {                                                                                          \
			const from *x = REG(from, 1);                                                                                        \
			LANE_LOOP(d[l] = (to)x[l]);                                                                                          \
		} else {                                                                                                                 \
			SLOW_LANE_LOOP(d[l] = (to)(from)get(w, i, (u32)l));                                                                       \
		}                                                                                                                        \
	}
FLOATING(f32, u8) FLOATING(f32, s8) FLOATING(f32, u16) FLOATING(f32, s16) FLOATING(f32, u32) FLOATING(f32, s32) FLOATING(f32, u64)
FLOATING(f32, s64) FLOATING(f64, u8) FLOATING(f64, s8) FLOATING(f64, u16) FLOATING(f64, s16) FLOATING(f64, u32) FLOATING(f64, s32)
FLOATING(f64, u64) FLOATING(f64, s64)

static inline u32 bits_of(f32 f) {
	u32 b;
	memcpy(&b, &f, 4);
	return b;
}
static inline f32 float_of(u32 b) {
	f32 f;
	memcpy(&f, &b, 4);
	return f;
}
static inline f32 canonical(f32 f) { return f == f ? f : float_of(0x7fffffff); }

// bf16 is the upper half of an f32, rounded to nearest, ties to even.
static inline u16 bf16(f32 f) {
	u32 b = bits_of(f);
	return f == f ? (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16) : 0x7fff;
}
static inline u16 f16(f32 f) {
	_Float16 h = (_Float16)f;
	u16 b;
	memcpy(&b, &h, 2);
	return f == f ? b : 0x7fff;
}
static inline f32 f16_value(u16 b) {
	_Float16 h;
	memcpy(&h, &b, 2);
	return canonical((f32)h);
}

#define CONVERT(name, to, from, expression)                                                                                      \
	static void name(Warp *w, const Ins *i, u32 mask) {                                                                          \
		to *d = REG(to, 0);                                                                                                      \
		const from *x = REG(from, 1);                                                                                            \
		LANE_LOOP(from a = x[l]; d[l] = (expression));                                                                           \
	}
CONVERT(bf16_f32, u16, f32, bf16(a)) CONVERT(f16_f32, u16, f32, f16(a)) CONVERT(f32_f16, f32, u16, f16_value(a))
CONVERT(f64_f32, f64, f32, (f64)canonical(a)) CONVERT(f32_f64, f32, f64, canonical((f32)a))
CONVERT(f32_rni, f32, f32, canonical(__builtin_rintf(a))) CONVERT(f32_rzi, f32, f32, canonical(__builtin_truncf(a)))
CONVERT(f32_rmi, f32, f32, canonical(__builtin_floorf(a))) CONVERT(f32_rpi, f32, f32, canonical(__builtin_ceilf(a)))
CONVERT(f64_rni, f64, f64, rint(a)) CONVERT(f64_rzi, f64, f64, trunc(a)) CONVERT(f64_rmi, f64, f64, floor(a))
CONVERT(f64_rpi, f64, f64, ceil(a)) CONVERT(f32_sat, f32, f32, a > 0 ? a < 1 ? a : 1 : 0)

// Pairs: the first operand is the upper half.
#define PAIR(name, half)                                                                                                         \
	static void name(Warp *w, const Ins *i, u32 mask) {                                                                          \
		u32 *d = REG(u32, 0);                                                                                                    \
		const f32 *x = REG(f32, 1), *y = REG(f32, 2);                                                                            \
		LANE_LOOP(d[l] = (u32)half(x[l]) << 16 | half(y[l]));                                                                    \
	}
PAIR(bf16x2, bf16) PAIR(f16x2, f16)

#define INTEGER_ROW(to, from) {"cvt." #to "." #from, to##_##from, "ww"}
#define FROM_EACH(to) INTEGER_ROW(to, u8), INTEGER_ROW(to, s8), INTEGER_ROW(to, u16), INTEGER_ROW(to, s16), INTEGER_ROW(to, u32), \
	INTEGER_ROW(to, s32), INTEGER_ROW(to, u64), INTEGER_ROW(to, s64)
#define MODE_ROW(mode, to, from, size) {"cvt." #mode "." #to "." #from, to##_##mode##_##from, "w" size}
#define MODE_ROWS(to, from, size)                                                                                                \
	MODE_ROW(rni, to, from, size), MODE_ROW(rzi, to, from, size), MODE_ROW(rmi, to, from, size), MODE_ROW(rpi, to, from, size)
#define FLOAT_ROWS(to, size)                                                                                                     \
	{"cvt.rn." #to ".u8", to##_u8, size "w"}, {"cvt.rn." #to ".s8", to##_s8, size "w"},                                          \
	{"cvt.rn." #to ".u16", to##_u16, size "w"}, {"cvt.rn." #to ".s16", to##_s16, size "w"},                                      \
	{"cvt.rn." #to ".u32", to##_u32, size "w"}, {"cvt.rn." #to ".s32", to##_s32, size "w"},                                      \
	{"cvt.rn." #to ".u64", to##_u64, size "w"}, {"cvt.rn." #to ".s64", to##_s64, size "w"}

const Opcode convert_opcodes[] = {
	FROM_EACH(u8), FROM_EACH(s8), FROM_EACH(u16), FROM_EACH(s16), FROM_EACH(u32), FROM_EACH(s32), FROM_EACH(u64), FROM_EACH(s64),
	MODE_ROWS(u16, f32, "4"), MODE_ROWS(s16, f32, "4"), MODE_ROWS(u32, f32, "4"), MODE_ROWS(s32, f32, "4"),
	MODE_ROWS(u64, f32, "4"), MODE_ROWS(s64, f32, "4"), MODE_ROWS(u32, f64, "8"), MODE_ROWS(s32, f64, "8"),
	MODE_ROWS(u64, f64, "8"), MODE_ROWS(s64, f64, "8"), FLOAT_ROWS(f32, "4"), FLOAT_ROWS(f64, "8"),
	{"cvt.rn.bf16.f32", bf16_f32, "24"}, {"cvt.rn.f16.f32", f16_f32, "24"}, {"cvt.f32.f16", f32_f16, "42"},
	{"cvt.f64.f32", f64_f32, "84"}, {"cvt.rn.f32.f64", f32_f64, "48"},
	{"cvt.rni.f32.f32", f32_rni, "44"}, {"cvt.rzi.f32.f32", f32_rzi, "44"}, {"cvt.rmi.f32.f32", f32_rmi, "44"},
	{"cvt.rpi.f32.f32", f32_rpi, "44"}, {"cvt.rni.f64.f64", f64_rni, "88"}, {"cvt.rzi.f64.f64", f64_rzi, "88"},
	{"cvt.rmi.f64.f64", f64_rmi, "88"}, {"cvt.rpi.f64.f64", f64_rpi, "88"}, {"cvt.sat.f32.f32", f32_sat, "44"},
	{"cvt.rn.bf16x2.f32", bf16x2, "444"}, {"cvt.rn.f16x2.f32", f16x2, "444"},
	{0},
};
