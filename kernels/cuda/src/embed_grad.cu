// d_table [V, width] += the rows of d_out [T, width], each at its id.
#include "kernel.h"

// A block has 256 columns of row t. That of the first row with its id adds up all rows with it, in ascending order, and then adds the
// sum once; the others have nothing to do. So nobody waits for anybody, and the order of blocks is of no account.
KERNEL embed_grad(float *d_table, const float *d_out, const int *ids, u32 width, u32 T) {
	__shared__ u32 same[threads / 32];
	u32 t = block(), column = block_y() * threads + thread();
	int id = ids[t];
	float sum = 0;
	for (u32 first = 0; first < T; first += threads) {
		u32 row = first + thread(), here = __nvvm_vote_ballot_sync(~0u, row < T && ids[row] == id);
		if (lane() == 0)
			same[thread() / 32] = here;
		barrier();
		for (u32 w = 0; w < threads / 32; w++)
			for (u32 left = same[w]; left; left &= left - 1) {
				u32 row = first + w * 32 + (u32)__builtin_ctz(left);
				if (row < t)
					return; // all threads of the block: that row's block does it
				if (column < width)
					sum += d_out[(u64)row * width + column];
			}
		barrier();
	}
	if (column < width)
		d_table[(u64)id * width + column] += sum;
}
