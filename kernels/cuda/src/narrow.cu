// Rows rounded to bf16 for storage, and restored. A block has 1,024 numbers.
#include "kernel.h"

KERNEL narrow(u16 *out, const float *x, u64 n) {
	u64 i = 4 * global_thread();
	bool wide = aligned(out, x);
	store_four(out, i, n, wide, load_four(x, i, n, wide));
}

KERNEL widen(float *out, const u16 *x, u64 n) {
	u64 i = 4 * global_thread();
	bool wide = aligned(out, x);
	store_four(out, i, n, wide, load_four(x, i, n, wide));
}

// narrow_strips rounds rows for linear_narrowed.h: to strips of 64 columns, each with out_rows rows, zero outside of the matrix. A block
// has 32 rows of a strip.
KERNEL narrow_strips(u16 *out, u32 out_rows, const float *x, u32 x_stride, u32 rows, u32 columns) {
	u32 row = block() * 32 + thread() / 8, column = block_y() * 64 + thread() % 8 * 8;
	const float *from = x + (u64)row * x_stride;
	bool wide = aligned(from), inside = row < rows;
	u16 *to = out + ((u64)block_y() * out_rows + row) * 64;
	UNROLL for (u32 i = 0; i < 8; i += 4)
		store_four(to, thread() % 8 * 8 + i, 64, true, inside ? load_four(from, column + i, columns, wide) : (Four)0);
}
