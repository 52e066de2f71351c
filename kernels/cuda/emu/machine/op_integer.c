// Integer arithmetic. Results wrap; a division by zero gives all ones, as on the device.
#include "machine.h"

#define BINARY(op, type, expression)                                                                                             \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1), *y = REG(type, 2);                                                                         \
		LANE_LOOP(type a = x[l]; type b = y[l]; d[l] = (type)(expression));                                                      \
	}
#define UNARY(op, type, expression)                                                                                              \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1);                                                                                            \
		LANE_LOOP(type a = x[l]; d[l] = (type)(expression));                                                                     \
	}
// Products of three operands; wide is the type of the third and the result.
#define TERNARY(op, type, wide, expression)                                                                                      \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		wide *d = REG(wide, 0);                                                                                                  \
		const type *x = REG(type, 1), *y = REG(type, 2);                                                                         \
		const wide *z = REG(wide, 3);                                                                                            \
		LANE_LOOP(type a = x[l]; type b = y[l]; wide c = z[l]; d[l] = (wide)(expression));                                       \
	}
#define WIDE(op, type, wide, expression)                                                                                         \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		wide *d = REG(wide, 0);                                                                                                  \
		const type *x = REG(type, 1), *y = REG(type, 2);                                                                         \
		LANE_LOOP(wide a = x[l]; wide b = y[l]; d[l] = (wide)(expression));                                                      \
	}

typedef __int128 s128;
typedef unsigned __int128 u128;

// Sums and products of unsigned numbers wrap in C, too; products of u16 are computed in u32, where they fit.
#define UNSIGNED(type)                                                                                                           \
	BINARY(add, type, a + b)                                                                                                     \
	BINARY(sub, type, a - b)                                                                                                     \
	BINARY(mul_lo, type, (u64)a * b)                                                                                             \
	BINARY(div, type, b ? a / b : (type)~(type)0)                                                                                \
	BINARY(rem, type, b ? a % b : a)                                                                                             \
	BINARY(min, type, a < b ? a : b)                                                                                             \
	BINARY(max, type, a > b ? a : b)                                                                                             \
	TERNARY(mad_lo, type, type, (u64)a * b + c)
#define SIGNED(type, same_size)                                                                                                  \
	BINARY(div, type, b == 0 ? -1 : b == -1 ? (type)(0 - (same_size)a) : a / b)                                                  \
	BINARY(rem, type, b == 0 ? a : b == -1 ? 0 : a % b)                                                                          \
	BINARY(min, type, a < b ? a : b)                                                                                             \
	BINARY(max, type, a > b ? a : b)                                                                                             \
	UNARY(neg, type, 0 - (same_size)a)                                                                                           \
	UNARY(abs, type, a < 0 ? (type)(0 - (same_size)a) : a)

UNSIGNED(u16) UNSIGNED(u32) UNSIGNED(u64)
SIGNED(s16, u16) SIGNED(s32, u32) SIGNED(s64, u64)

WIDE(mul_wide, u16, u32, a * b) WIDE(mul_wide, s16, s32, a * b) WIDE(mul_wide, u32, u64, a * b) WIDE(mul_wide, s32, s64, a * b)
BINARY(mul_hi, u16, ((u32)a * b) >> 16)
BINARY(mul_hi, s16, ((s32)a * b) >> 16)
BINARY(mul_hi, u32, ((u64)a * b) >> 32)
BINARY(mul_hi, s32, ((s64)a * b) >> 32)
BINARY(mul_hi, u64, ((u128)a * b) >> 64)
BINARY(mul_hi, s64, ((s128)a * b) >> 64)
TERNARY(mad_hi, u32, u32, (((u64)a * b) >> 32) + c)
TERNARY(mad_hi, s32, s32, (u32)(((s64)a * b) >> 32) + (u32)c)
TERNARY(mad_hi, u64, u64, (u64)(((u128)a * b) >> 64) + c)
TERNARY(mad_wide, u16, u32, (u32)a * b + c)
TERNARY(mad_wide, s16, s32, (u32)((s32)a * b) + (u32)c)
TERNARY(mad_wide, u32, u64, (u64)a * b + c)
TERNARY(mad_wide, s32, s64, (u64)((s64)a * b) + (u64)c)
TERNARY(sad, u32, u32, (a > b ? a - b : b - a) + c)
TERNARY(sad, s32, s32, (a > b ? (u32)a - (u32)b : (u32)b - (u32)a) + (u32)c)

#define SIGNLESS(op, name)                                                                                                       \
	{name ".u16", op##_u16, "222"}, {name ".s16", op##_u16, "222"}, {name ".u32", op##_u32, "444"}, {name ".s32", op##_u32, "444"},\
	{name ".u64", op##_u64, "888"}, {name ".s64", op##_u64, "888"}
#define BOTH(op, name)                                                                                                           \
	{name ".u16", op##_u16, "222"}, {name ".s16", op##_s16, "222"}, {name ".u32", op##_u32, "444"}, {name ".s32", op##_s32, "444"},\
	{name ".u64", op##_u64, "888"}, {name ".s64", op##_s64, "888"}

const Opcode integer_opcodes[] = {
	SIGNLESS(add, "add"), SIGNLESS(sub, "sub"), SIGNLESS(mul_lo, "mul.lo"),
	BOTH(div, "div"), BOTH(rem, "rem"), BOTH(min, "min"), BOTH(max, "max"), BOTH(mul_hi, "mul.hi"),
	{"neg.s16", neg_s16, "22"}, {"neg.s32", neg_s32, "44"}, {"neg.s64", neg_s64, "88"},
	{"abs.s16", abs_s16, "22"}, {"abs.s32", abs_s32, "44"}, {"abs.s64", abs_s64, "88"},
	{"mul.wide.u16", mul_wide_u16, "422"}, {"mul.wide.s16", mul_wide_s16, "422"},
	{"mul.wide.u32", mul_wide_u32, "844"}, {"mul.wide.s32", mul_wide_s32, "844"},
	{"mad.lo.u16", mad_lo_u16, "2222"}, {"mad.lo.s16", mad_lo_u16, "2222"},
	{"mad.lo.u32", mad_lo_u32, "4444"}, {"mad.lo.s32", mad_lo_u32, "4444"},
	{"mad.lo.u64", mad_lo_u64, "8888"}, {"mad.lo.s64", mad_lo_u64, "8888"},
	{"mad.hi.u32", mad_hi_u32, "4444"}, {"mad.hi.s32", mad_hi_s32, "4444"}, {"mad.hi.u64", mad_hi_u64, "8888"},
	{"mad.wide.u16", mad_wide_u16, "4224"}, {"mad.wide.s16", mad_wide_s16, "4224"},
	{"mad.wide.u32", mad_wide_u32, "8448"}, {"mad.wide.s32", mad_wide_s32, "8448"},
	{"sad.u32", sad_u32, "4444"}, {"sad.s32", sad_s32, "4444"},
	{0},
};
