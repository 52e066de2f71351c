// The peak rates of a card: bf16 products by mma.sync, f32 fused multiply-adds, and reads of memory. Results are written only so that the
// compiler does not remove the work.
#include "kernel.h"

DEVICE void multiply(float *c, const u32 *a, const u32 *b) {
	asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Independent operations in flight, which hide the latency of each. peak.go has the same constants.
constexpr u32 products = 8, chains = 16, loads = 8;

// peak_products: each warp does `rounds` rounds of products.
KERNEL peak_products(float *out, u32 rounds) {
	u32 a[4] = {thread(), thread() + 1, thread() + 2, thread() + 3}, b[2] = {thread(), thread() * 3};
	float sum[products][4] = {};
	_Pragma("nounroll") for (u32 i = 0; i < rounds; i++)
		UNROLL for (u32 k = 0; k < products; k++)
			multiply(sum[k], a, b);
	float all = 0;
	UNROLL for (u32 k = 0; k < products; k++)
		all += sum[k][0] + sum[k][1] + sum[k][2] + sum[k][3];
	out[global_thread()] = all;
}

// peak_fma: each thread does `rounds` rounds of chains.
KERNEL peak_fma(float *out, float by, u32 rounds) {
	float sum[chains];
	UNROLL for (u32 k = 0; k < chains; k++)
		sum[k] = (float)(thread() + k);
	_Pragma("nounroll") for (u32 i = 0; i < rounds; i++)
		UNROLL for (u32 k = 0; k < chains; k++)
			sum[k] = fma(sum[k], by, by);
	float all = 0;
	UNROLL for (u32 k = 0; k < chains; k++)
		all += sum[k];
	out[global_thread()] = all;
}

// peak_read: all blocks together read `fours` groups of four numbers, a multiple of what they read in a round.
KERNEL peak_read(float *out, const Four *x, u64 fours, u64 all_threads) {
	Four sum = 0;
	_Pragma("nounroll") for (u64 i = global_thread(); i < fours; i += loads * all_threads) {
		Four some[loads];
		UNROLL for (u32 k = 0; k < loads; k++)
			some[k] = x[i + k * all_threads];
		UNROLL for (u32 k = 0; k < loads; k++)
			sum += some[k];
	}
	out[global_thread()] = sum[0] + sum[1] + sum[2] + sum[3];
}
