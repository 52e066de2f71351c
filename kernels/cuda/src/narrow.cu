// Rows that wait in bf16, and come back. A block has 1,024 numbers.
#include "kernel.h"

KERNEL narrow(u16 *out, const float *x, u64 n) {
	u64 i = 4 * index();
	bool wide = aligned(out, x);
	put(out, i, n, wide, take(x, i, n, wide));
}

KERNEL widen(float *out, const u16 *x, u64 n) {
	u64 i = 4 * index();
	bool wide = aligned(out, x);
	put(out, i, n, wide, take(x, i, n, wide));
}
