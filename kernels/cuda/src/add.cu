#include "kernel.h"

// out = by · x.
KERNEL scale(float *out, const float *x, float by, u64 n) {
	u64 i = 4 * index();
	bool wide = aligned(out, x);
	put(out, i, n, wide, take(x, i, n, wide) * by);
}

KERNEL add(float *out, const float *a, const float *b, u64 n) {
	u64 i = 4 * index();
	bool wide = aligned(out, a, b);
	put(out, i, n, wide, take(a, i, n, wide) + take(b, i, n, wide));
}
