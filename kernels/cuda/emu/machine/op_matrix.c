// Tensor cores: C += A · B of 16×16 and 16×8 (or 16×8 and 8×8) bf16 numbers with sums in f32.
//
// An element of the result is one chain of fused multiply-adds from C, over k ascending. A card sums in another order, and drops bits
// that this keeps: see docs/emulator.md.
#include "machine.h"

#include <string.h>

static inline float canonical(float f) {
	u32 nan = 0x7fffffff;
	if (f != f)
		memcpy(&f, &nan, 4);
	return f;
}

// halves converts pairs of bf16 to floats: the first in the low half.
static inline void halves(const u32 *pairs, u32 n, float *first, float *second) {
	for (u32 p = 0; p < n; p++) {
		u32 low = pairs[p] << 16, high = pairs[p] & 0xffff0000;
		memcpy(&first[p], &low, 4);
		memcpy(&second[p], &high, 4);
	}
}

typedef float Row8 __attribute__((vector_size(32)));

// chain adds products to four rows of the result, k ascending. If the host has a fused multiply-add, the compiler contracts each product
// and sum to one; elsewhere the library computes it.
#ifdef __FP_FAST_FMAF
__attribute__((optimize("fp-contract=fast")))
#endif
static void chain(Row8 *c, const float (*a0)[8], const float (*a1)[8], const Row8 *b0, const Row8 *b1, u32 pairs) {
	Row8 s[4] = {c[0], c[1], c[2], c[3]};
	for (u32 p = 0; p < pairs; p++)
		for (u32 row = 0; row < 4; row++) {
#ifdef __FP_FAST_FMAF
			s[row] = a0[row][p] * b0[p] + s[row];
			s[row] = a1[row][p] * b1[p] + s[row];
#else
			for (u32 n = 0; n < 8; n++)
				s[row][n] = __builtin_fmaf(a1[row][p], b1[p][n], __builtin_fmaf(a0[row][p], b0[p][n], s[row][n]));
#endif
		}
	memcpy(c, s, sizeof s);
}

// Lane 4g + q holds rows g and g + 8 of A and C, column g of B; its pairs of k or of columns are the q-th.
static inline void multiply(Warp *w, const Ins *i, u32 mask, u32 depth) {
	if (mask != ~0u)
		report(w, i, mask ? __builtin_ctz(mask) : 0, LANE_MASK, "mma needs all 32 lanes, and lanes 0x%08x are elsewhere", ~mask);
	u32 quarters = depth / 8, as = 4, bs = as + 2 * quarters, cs = bs + quarters;
	u32 a[16][8] = {0}, b[8][8] = {0};
	float a0[16][8], a1[16][8];
	Row8 b0[8], b1[8], c[16];
	for (u32 x = 0; x < 2 * quarters; x++)
		for (u32 g = 0; g < 8; g++)
			memcpy(&a[g + (x & 1) * 8][(x >> 1) * 4], REG(u32, as + x) + 4 * g, 16);
	for (u32 x = 0; x < quarters; x++)
		for (u32 q = 0; q < 4; q++)
			for (u32 g = 0; g < 8; g++)
				b[x * 4 + q][g] = REG(u32, bs + x)[4 * g + q];
	halves(&a[0][0], 16 * 8, &a0[0][0], &a1[0][0]);
	halves(&b[0][0], 8 * 8, (float *)b0, (float *)b1);
	float *flat = (float *)c; // rows of 8: lane l has numbers 2l and 2l + 1 of the upper and of the lower half
	for (u32 x = 0; x < 4; x += 2) {
		const float *even = REG(float, cs + x), *odd = REG(float, cs + x + 1);
		for (u32 l = 0; l < LANES; l++)
			flat[x * 32 + 2 * l] = even[l], flat[x * 32 + 2 * l + 1] = odd[l];
	}
	for (u32 row = 0; row < 16; row += 4)
		chain(&c[row], a0 + row, a1 + row, b0, b1, depth / 2);
	for (u32 x = 0; x < 4; x++) {
		float *d = REG(float, x);
		for (u32 l = 0; l < LANES; l++)
			d[l] = canonical(flat[(x >> 1) * 64 + 2 * l + (x & 1)]);
	}
}
static void multiply16(Warp *w, const Ins *i, u32 mask) { multiply(w, i, mask, 16); }
static void multiply8(Warp *w, const Ins *i, u32 mask) { multiply(w, i, mask, 8); }

const Opcode matrix_opcodes[] = {
	{"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", multiply16, "v4v4v2v4"},
	{"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", multiply8, "v4v2v1v4"},
	{0},
};
