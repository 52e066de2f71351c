// Comparisons and selections. A comparison with NaN is false; its unordered form (…u) is true.
#include "machine.h"

// set combines the result of a comparison with a third predicate if the name asks for that (Ins.has). The optional second result is the
// opposite of the comparison.
static void set(Warp *w, const Ins *i, u32 mask, u32 yes) {
	u32 *d = REG(u32, 0), no = ~yes, c = i->variant ? *REG(u32, 4) : 0;
	switch (i->variant) {
	case '&': yes &= c, no &= c; break;
	case '/': yes |= c, no |= c; break;
	case '^': yes ^= c, no ^= c; break;
	}
	*d = (*d & ~mask) | (yes & mask);
	if (i->operand[1])
		*REG(u32, 1) = (*REG(u32, 1) & ~mask) | (no & mask);
}

#define COMPARE(op, type, expression)                                                                                            \
	static void setp_##op##_##type(Warp *w, const Ins *i, u32 mask) {                                                            \
		const type *x = REG(type, 2), *y = REG(type, 3);                                                                         \
		u32 r = 0;                                                                                                               \
		for (u32 l = 0; l < LANES; l++) {                                                                                        \
			type a = x[l], b = y[l];                                                                                             \
			r |= (expression) ? 1u << l : 0;                                                                                     \
		}                                                                                                                        \
		set(w, i, mask, r);                                                                                                      \
	}

#define ORDERS(type) COMPARE(lt, type, a < b) COMPARE(le, type, a <= b) COMPARE(gt, type, a > b) COMPARE(ge, type, a >= b)
#define EQUALS(type) COMPARE(eq, type, a == b) COMPARE(ne, type, a != b)
ORDERS(u16) ORDERS(s16) ORDERS(u32) ORDERS(s32) ORDERS(u64) ORDERS(s64)
EQUALS(u16) EQUALS(u32) EQUALS(u64)

#define FLOATS(type)                                                                                                             \
	ORDERS(type)                                                                                                                 \
	COMPARE(eq, type, a == b)                                                                                                    \
	COMPARE(ne, type, a < b || a > b)                                                                                            \
	COMPARE(ltu, type, !(a >= b)) COMPARE(leu, type, !(a > b)) COMPARE(gtu, type, !(a <= b)) COMPARE(geu, type, !(a < b))        \
	COMPARE(equ, type, !(a < b || a > b))                                                                                        \
	COMPARE(neu, type, a != b)                                                                                                   \
	COMPARE(num, type, a == a && b == b)                                                                                         \
	COMPARE(nan, type, a != a || b != b)
typedef float f32;
typedef double f64;
FLOATS(f32) FLOATS(f64)

#define SELECT(type)                                                                                                             \
	static void selp_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1), *y = REG(type, 2);                                                                         \
		u32 p = *REG(u32, 3);                                                                                                    \
		LANE_LOOP(d[l] = p >> l & 1 ? x[l] : y[l]);                                                                              \
	}
SELECT(u16) SELECT(u32) SELECT(u64)

static void selp_pred(Warp *w, const Ins *i, u32 mask) {
	u32 *d = REG(u32, 0), x = *REG(u32, 1), y = *REG(u32, 2), p = *REG(u32, 3);
	*d = (*d & ~mask) | (((x & p) | (y & ~p)) & mask);
}

#define CHOOSE(type, sign)                                                                                                       \
	static void slct_##type##_##sign(Warp *w, const Ins *i, u32 mask) {                                                          \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1), *y = REG(type, 2);                                                                         \
		const sign *c = REG(sign, 3);                                                                                            \
		LANE_LOOP(d[l] = c[l] >= 0 ? x[l] : y[l]);                                                                               \
	}
CHOOSE(u32, s32) CHOOSE(u64, s32) CHOOSE(u32, f32) CHOOSE(u64, f32)

#define SETP(op, type, name, sizes)                                                                                              \
	{"setp." #op name, setp_##op##_##type, "p|" sizes}, {"setp." #op ".and" name, setp_##op##_##type, "p|" sizes "p&"},          \
	{"setp." #op ".or" name, setp_##op##_##type, "p|" sizes "p/"}, {"setp." #op ".xor" name, setp_##op##_##type, "p|" sizes "p^"}
#define ORDER_ROWS(type, name, sizes)                                                                                            \
	SETP(lt, type, name, sizes), SETP(le, type, name, sizes), SETP(gt, type, name, sizes), SETP(ge, type, name, sizes)
#define EQUAL_ROWS(type, name, sizes) SETP(eq, type, name, sizes), SETP(ne, type, name, sizes)
#define FLOAT_ROWS(type, name, sizes)                                                                                            \
	ORDER_ROWS(type, name, sizes), EQUAL_ROWS(type, name, sizes), SETP(ltu, type, name, sizes), SETP(leu, type, name, sizes),    \
	SETP(gtu, type, name, sizes), SETP(geu, type, name, sizes), SETP(equ, type, name, sizes), SETP(neu, type, name, sizes),      \
	SETP(num, type, name, sizes), SETP(nan, type, name, sizes)
// Unsigned comparisons have their own names, too: lo, ls, hi, hs.
#define UNSIGNED_ROWS(type, name, sizes)                                                                                         \
	{"setp.lo" name, setp_lt_##type, "p|" sizes}, {"setp.ls" name, setp_le_##type, "p|" sizes},                                  \
	{"setp.hi" name, setp_gt_##type, "p|" sizes}, {"setp.hs" name, setp_ge_##type, "p|" sizes}
#define CHOICES(bits, type, size)                                                                                                \
	{"selp.b" bits, selp_##type, size size size "p"}, {"selp.u" bits, selp_##type, size size size "p"},                          \
	{"selp.s" bits, selp_##type, size size size "p"}, {"selp.f" bits, selp_##type, size size size "p"}
#define SLCT(kind, type, size)                                                                                                   \
	{"slct." kind ".s32", slct_##type##_s32, size size size "4"}, {"slct." kind ".f32", slct_##type##_f32, size size size "4"}

const Opcode compare_opcodes[] = {
	ORDER_ROWS(u16, ".u16", "22"), ORDER_ROWS(s16, ".s16", "22"), ORDER_ROWS(u32, ".u32", "44"), ORDER_ROWS(s32, ".s32", "44"),
	ORDER_ROWS(u64, ".u64", "88"), ORDER_ROWS(s64, ".s64", "88"),
	EQUAL_ROWS(u16, ".u16", "22"), EQUAL_ROWS(u16, ".s16", "22"), EQUAL_ROWS(u16, ".b16", "22"),
	EQUAL_ROWS(u32, ".u32", "44"), EQUAL_ROWS(u32, ".s32", "44"), EQUAL_ROWS(u32, ".b32", "44"),
	EQUAL_ROWS(u64, ".u64", "88"), EQUAL_ROWS(u64, ".s64", "88"), EQUAL_ROWS(u64, ".b64", "88"),
	UNSIGNED_ROWS(u16, ".u16", "22"), UNSIGNED_ROWS(u32, ".u32", "44"), UNSIGNED_ROWS(u64, ".u64", "88"),
	FLOAT_ROWS(f32, ".f32", "44"), FLOAT_ROWS(f64, ".f64", "88"),
	CHOICES("16", u16, "2"), CHOICES("32", u32, "4"), CHOICES("64", u64, "8"), {"selp.pred", selp_pred, "pppp"},
	SLCT("b32", u32, "4"), SLCT("u32", u32, "4"), SLCT("s32", u32, "4"), SLCT("f32", u32, "4"),
	SLCT("b64", u64, "8"), SLCT("u64", u64, "8"), SLCT("s64", u64, "8"), SLCT("f64", u64, "8"),
	{0},
};
