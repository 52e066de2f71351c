// The sum of n squares in double precision: each block adds 8,192 numbers, then one block adds the sums of the blocks. The order depends
// on n alone.
#include "kernel.h"

constexpr u64 chunk = 8192;

KERNEL sum_squares(double *sums, const float *x, u64 n) {
	u64 from = block() * chunk;
	bool wide = aligned(x);
	double sum = 0;
	for (u64 i = from + 4 * thread(); i < from + chunk; i += 4 * threads) {
		Four v = load_four(x, i, n, wide);
		UNROLL for (int k = 0; k < 4; k++)
			sum = fma((double)v[k], (double)v[k], sum);
	}
	sum = over_block(sum);
	if (thread() == 0)
		sums[block()] = sum;
}

KERNEL sum_of_sums(double *out, const double *sums, u32 n) {
	double sum = 0;
	for (u32 i = thread(); i < n; i += threads)
		sum += sums[i];
	sum = over_block(sum);
	if (thread() == 0)
		*out = sum;
}
