#include "kernel.h"

// out = by · x.
KERNEL scale(float *out, const float *x, float by, u64 n) {
	u64 i = 4 * global_thread();
	bool wide = aligned(out, x);
	store_four(out, i, n, wide, load_four(x, i, n, wide) * by);
}

KERNEL add(float *out, const float *a, const float *b, u64 n) {
	u64 i = 4 * global_thread();
	bool wide = aligned(out, a, b);
	store_four(out, i, n, wide, load_four(a, i, n, wide) + load_four(b, i, n, wide));
}
