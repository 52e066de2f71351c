// Tensor cores: C += A · B of 16×16 and 16×8 (or 16×8 and 8×8) bf16 numbers with sums in f32.
//
// An element of the result is one chain of fused multiply-adds from C, over k ascending. A card sums in another order, and
// drops bits that this does not: see docs/emulator.md.
#include "machine.h"

#include <string.h>

static inline float value(u32 pair, u32 half) {
	u32 bits = half ? pair & 0xffff0000 : pair << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}
static inline float canonical(float f) {
	u32 nan = 0x7fffffff;
	if (f != f)
		memcpy(&f, &nan, 4);
	return f;
}

// Lane 4g + q holds rows g and g + 8 of A and C, column g of B; pairs of k or of columns begin at 2q.
static inline void multiply(Warp *w, const Ins *i, u32 mask, u32 depth) {
	if (mask != ~0u)
		find(w, i, mask ? __builtin_ctz(mask) : 0, LANE_MASK, "mma needs all 32 lanes, and lanes 0x%08x are elsewhere", ~mask);
	u32 halves = depth / 8, as = 4, bs = as + 2 * halves, cs = bs + halves;
	float a[16][16], b[16][8], c[16][8];
	for (u32 x = 0; x < 2 * halves; x++)
		for (u32 l = 0; l < LANES; l++) {
			u32 row = (l >> 2) + (x & 1) * 8, k = (l & 3) * 2 + (x >> 1) * 8, pair = REG(u32, as + x)[l];
			a[row][k] = value(pair, 0), a[row][k + 1] = value(pair, 1);
		}
	for (u32 x = 0; x < halves; x++)
		for (u32 l = 0; l < LANES; l++) {
			u32 k = (l & 3) * 2 + x * 8, pair = REG(u32, bs + x)[l];
			b[k][l >> 2] = value(pair, 0), b[k + 1][l >> 2] = value(pair, 1);
		}
	for (u32 x = 0; x < 4; x++)
		for (u32 l = 0; l < LANES; l++)
			c[(l >> 2) + (x >> 1) * 8][(l & 3) * 2 + (x & 1)] = REG(float, cs + x)[l];
	for (u32 row = 0; row < 16; row++)
		for (u32 k = 0; k < depth; k++)
			for (u32 column = 0; column < 8; column++)
				c[row][column] = __builtin_fmaf(a[row][k], b[k][column], c[row][column]);
	for (u32 x = 0; x < 4; x++)
		for (u32 l = 0; l < LANES; l++)
			REG(float, x)[l] = canonical(c[(l >> 2) + (x >> 1) * 8][(l & 3) * 2 + (x & 1)]);
}
static void multiply16(Warp *w, const Ins *i, u32 mask) { multiply(w, i, mask, 16); }
static void multiply8(Warp *w, const Ins *i, u32 mask) { multiply(w, i, mask, 8); }

const Row matrix_rows[] = {
	{"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", multiply16, "v4v4v2v4"},
	{"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", multiply8, "v4v2v1v4"},
	{0},
};
