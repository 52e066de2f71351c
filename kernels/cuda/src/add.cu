#include "kernel.h"

KERNEL add(float *out, const float *a, const float *b, u64 n) {
	u64 i = 4 * index();
	bool wide = aligned(out, a, b);
	put(out, i, n, wide, take(a, i, n, wide) + take(b, i, n, wide));
}
