// Moves, logic, shifts and bit fields. A shift by the width or more gives zero, or the sign, as on the device.
#include "machine.h"

#include <string.h>

#define BINARY(op, type, other, expression)                                                                                      \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1);                                                                                            \
		const other *y = REG(other, 2);                                                                                          \
		LANE_LOOP(type a = x[l]; other b = y[l]; d[l] = (type)(expression));                                                     \
	}
#define UNARY(op, type, result, expression)                                                                                      \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		result *d = REG(result, 0);                                                                                              \
		const type *x = REG(type, 1);                                                                                            \
		LANE_LOOP(type a = x[l]; d[l] = (result)(expression));                                                                   \
	}
#define TERNARY(op, type, second, third, expression)                                                                             \
	static void op##_##type(Warp *w, const Ins *i, u32 mask) {                                                                   \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1);                                                                                            \
		const second *y = REG(second, 2);                                                                                        \
		const third *z = REG(third, 3);                                                                                          \
		LANE_LOOP(type a = x[l]; second b = y[l]; third c = z[l]; d[l] = (type)(expression));                                    \
	}
// Predicates are one word: a bit for each lane.
#define PREDICATE(op, expression)                                                                                                \
	static void op##_pred(Warp *w, const Ins *i, u32 mask) {                                                                     \
		u32 *d = REG(u32, 0), a = *REG(u32, 1), b = *REG(u32, 2);                                                                \
		(void)b;                                                                                                                 \
		*d = (*d & ~mask) | ((expression) & mask);                                                                               \
	}

#define SIZES(type, signed_type, bits)                                                                                           \
	UNARY(mov, type, type, a)                                                                                                    \
	UNARY(not, type, type, ~a)                                                                                                   \
	UNARY(cnot, type, type, !a)                                                                                                  \
	BINARY(and, type, type, a & b)                                                                                               \
	BINARY(or, type, type, a | b)                                                                                                \
	BINARY(xor, type, type, a ^ b)                                                                                               \
	BINARY(shl, type, u32, b < bits ? (u64)a << b : 0)                                                                           \
	BINARY(shr, type, u32, b < bits ? a >> b : 0)                                                                                \
	BINARY(shr, signed_type, u32, a >> (b < bits ? b : bits - 1))
SIZES(u16, s16, 16) SIZES(u32, s32, 32) SIZES(u64, s64, 64)

PREDICATE(mov, a) PREDICATE(not, ~a) PREDICATE(and, a & b) PREDICATE(or, a | b) PREDICATE(xor, a ^ b)

static inline u64 reversed(u64 v) {
	v = (v >> 1 & 0x5555555555555555) | (v & 0x5555555555555555) << 1;
	v = (v >> 2 & 0x3333333333333333) | (v & 0x3333333333333333) << 2;
	v = (v >> 4 & 0x0f0f0f0f0f0f0f0f) | (v & 0x0f0f0f0f0f0f0f0f) << 4;
	return __builtin_bswap64(v);
}
UNARY(popc, u32, u32, __builtin_popcount(a))
UNARY(popc, u64, u32, __builtin_popcountll(a))
UNARY(clz, u32, u32, a ? __builtin_clz(a) : 32)
UNARY(clz, u64, u32, a ? __builtin_clzll(a) : 64)
UNARY(brev, u32, u32, reversed(a) >> 32)
UNARY(brev, u64, u64, reversed(a))
UNARY(bfind, u32, u32, a ? 31 - __builtin_clz(a) : -1)
UNARY(bfind, u64, u32, a ? 63 - __builtin_clzll(a) : -1)
UNARY(bfind, s32, u32, (a ^ a >> 31) ? 31 - __builtin_clz((u32)(a ^ a >> 31)) : -1)

// The field of c bits from bit b on; bits beyond the register are zero, or the field's sign.
static inline u64 field(u64 a, u32 b, u32 c) {
	b &= 0xff, c &= 0xff;
	return b > 63 || !c ? 0 : a >> b & (c > 63 ? ~0ull : (1ull << c) - 1);
}
static inline u64 signed_field(s64 a, u32 b, u32 c, u32 width) {
	b &= 0xff, c &= 0xff;
	u32 top = b + c - 1 < width ? b + c - 1 : width - 1; // the position of the sign
	u64 sign = c && a >> top & 1 ? ~0ull : 0, v = b < width ? (u64)a >> b : 0, kept = top >= b ? top - b + 1 : 0;
	if (!c)
		return 0;
	u64 ones = kept > 63 ? ~0ull : (1ull << kept) - 1;
	return (v & ones) | (sign & ~ones);
}
TERNARY(bfe, u32, u32, u32, field(a, b, c))
TERNARY(bfe, u64, u32, u32, field(a, b, c))
TERNARY(bfe, s32, u32, u32, signed_field(a, b, c, 32))
TERNARY(bfe, s64, u32, u32, signed_field(a, b, c, 64))

// bfi inserts the low bits of a into b.
#define INSERT(type, bits)                                                                                                       \
	static void bfi_##type(Warp *w, const Ins *i, u32 mask) {                                                                    \
		type *d = REG(type, 0);                                                                                                  \
		const type *x = REG(type, 1), *y = REG(type, 2);                                                                         \
		const u32 *p = REG(u32, 3), *n = REG(u32, 4);                                                                            \
		LANE_LOOP(u32 at = p[l] & 0xff; u32 c = n[l] & 0xff; type ones = c >= bits ? (type)~(type)0 : ((type)1 << c) - 1;          \
			type hole = at >= bits ? 0 : ones << at; d[l] = (y[l] & ~hole) | (at >= bits ? 0 : (x[l] << at & hole)));            \
	}
INSERT(u32, 32) INSERT(u64, 64)

TERNARY(shf_l_wrap, u32, u32, u32, (((u64)b << 32 | a) << (c & 31)) >> 32)
TERNARY(shf_r_wrap, u32, u32, u32, ((u64)b << 32 | a) >> (c & 31))
TERNARY(shf_l_clamp, u32, u32, u32, c < 32 ? (((u64)b << 32 | a) << c) >> 32 : a)
TERNARY(shf_r_clamp, u32, u32, u32, c < 32 ? ((u64)b << 32 | a) >> c : b)

// prmt selects four of eight bytes; bit 3 of a selector selects the byte's sign instead.
static inline u32 permuted(u32 a, u32 b, u32 c) {
	u64 all = (u64)b << 32 | a;
	u32 d = 0;
	for (u32 n = 0; n < 4; n++) {
		u32 pick = c >> (4 * n) & 15, byte = (u32)(all >> (8 * (pick & 7))) & 0xff;
		d |= (pick & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << (8 * n);
	}
	return d;
}
TERNARY(prmt, u32, u32, u32, permuted(a, b, c))

// lop3 looks up each triple of bits in an 8-bit immediate.
static void lop3(Warp *w, const Ins *i, u32 mask) {
	u32 *d = REG(u32, 0), table = *REG(u32, 4);
	const u32 *x = REG(u32, 1), *y = REG(u32, 2), *z = REG(u32, 3);
	LANE_LOOP(u32 r = 0; for (u32 n = 0; n < 8; n++) if (table >> n & 1) r |= (n & 4 ? x[l] : ~x[l]) & (n & 2 ? y[l] : ~y[l]) &
		(n & 1 ? z[l] : ~z[l]); d[l] = r);
}

UNARY(to_shared, u64, u64, a - ((u64)SHARED_WINDOW << 32))
UNARY(from_shared, u64, u64, a + ((u64)SHARED_WINDOW << 32))
UNARY(to_local, u64, u64, a - ((u64)LOCAL_WINDOW << 32))
UNARY(from_local, u64, u64, a + ((u64)LOCAL_WINDOW << 32))

#define LOGIC(op, name)                                                                                                          \
	{name ".b16", op##_u16, "222"}, {name ".b32", op##_u32, "444"}, {name ".b64", op##_u64, "888"}, {name ".pred", op##_pred, "ppp"}
#define ALL_MOVES(bits, type, sizes)                                                                                             \
	{"mov.b" bits, mov_##type, sizes}, {"mov.u" bits, mov_##type, sizes}, {"mov.s" bits, mov_##type, sizes}, {"mov.f" bits, mov_##type, sizes}

const Opcode bit_opcodes[] = {
	ALL_MOVES("16", u16, "22"), ALL_MOVES("32", u32, "44"), ALL_MOVES("64", u64, "88"), {"mov.pred", mov_pred, "pp"},
	LOGIC(and, "and"), LOGIC(or, "or"), LOGIC(xor, "xor"),
	{"not.b16", not_u16, "22"}, {"not.b32", not_u32, "44"}, {"not.b64", not_u64, "88"}, {"not.pred", not_pred, "pp"},
	{"cnot.b16", cnot_u16, "22"}, {"cnot.b32", cnot_u32, "44"}, {"cnot.b64", cnot_u64, "88"},
	{"shl.b16", shl_u16, "224"}, {"shl.b32", shl_u32, "444"}, {"shl.b64", shl_u64, "884"},
	{"shr.u16", shr_u16, "224"}, {"shr.u32", shr_u32, "444"}, {"shr.u64", shr_u64, "884"},
	{"shr.b16", shr_u16, "224"}, {"shr.b32", shr_u32, "444"}, {"shr.b64", shr_u64, "884"},
	{"shr.s16", shr_s16, "224"}, {"shr.s32", shr_s32, "444"}, {"shr.s64", shr_s64, "884"},
	{"popc.b32", popc_u32, "44"}, {"popc.b64", popc_u64, "48"}, {"clz.b32", clz_u32, "44"}, {"clz.b64", clz_u64, "48"},
	{"brev.b32", brev_u32, "44"}, {"brev.b64", brev_u64, "88"},
	{"bfind.u32", bfind_u32, "44"}, {"bfind.u64", bfind_u64, "48"}, {"bfind.s32", bfind_s32, "44"},
	{"bfe.u32", bfe_u32, "4444"}, {"bfe.u64", bfe_u64, "8844"}, {"bfe.s32", bfe_s32, "4444"}, {"bfe.s64", bfe_s64, "8844"},
	{"bfi.b32", bfi_u32, "44444"}, {"bfi.b64", bfi_u64, "88844"},
	{"shf.l.wrap.b32", shf_l_wrap_u32, "4444"}, {"shf.r.wrap.b32", shf_r_wrap_u32, "4444"},
	{"shf.l.clamp.b32", shf_l_clamp_u32, "4444"}, {"shf.r.clamp.b32", shf_r_clamp_u32, "4444"},
	{"prmt.b32", prmt_u32, "4444"}, {"lop3.b32", lop3, "44444"},
	{"cvta.global.u64", mov_u64, "88"}, {"cvta.to.global.u64", mov_u64, "88"},
	{"cvta.const.u64", mov_u64, "88"}, {"cvta.to.const.u64", mov_u64, "88"},
	{"cvta.shared.u64", from_shared_u64, "88"}, {"cvta.to.shared.u64", to_shared_u64, "88"},
	{"cvta.local.u64", from_local_u64, "88"}, {"cvta.to.local.u64", to_local_u64, "88"},
	{0},
};
