// out [T, dim] = scale times cos (first half of a row) and sin (second half) of position · frequency.
#include "kernel.h"

struct CosSin {
	double cos, sin;
};

// Cosine and sine within 1e-12. The angle is n·π/2 + r, |r| <= π/4, reduced by two fused steps, which is exact enough for angles below
// 2^31. The series are of r; n selects one of them, and the sign.
DEVICE CosSin cos_sin(double angle) {
	double n = __builtin_rint(angle * 0x1.45f306dc9c883p-1);
	double r = fma(-n, 0x1.1a62633145c07p-54, fma(-n, 0x1.921fb54442d18p+0, angle)), square = r * r;
	const double odd[] = {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1};
	const double even[] = {-1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1};
	double s = odd[0], c = even[0];
	UNROLL for (int k = 1; k < 7; k++)
		s = fma(s, square, odd[k]);
	UNROLL for (int k = 1; k < 8; k++)
		c = fma(c, square, even[k]);
	s *= r;
	int quarter = (int)((long long)n & 3);
	CosSin t;
	t.cos = quarter & 1 ? s : c;
	t.sin = quarter & 1 ? c : s;
	t.cos = quarter == 1 || quarter == 2 ? -t.cos : t.cos;
	t.sin = quarter >= 2 ? -t.sin : t.sin;
	return t;
}

// A thread has a pair; half is the number of frequencies.
KERNEL rope_table(float *out, const int *positions, const double *frequencies, double scale, u32 half, u64 pairs) {
	u64 n = global_thread();
	if (n >= pairs)
		return;
	u64 t = n / half;
	u32 i = (u32)(n % half);
	CosSin rotation = cos_sin((double)positions[t] * frequencies[i]);
	out[t * 2 * half + i] = (float)(scale * rotation.cos);
	out[t * 2 * half + half + i] = (float)(scale * rotation.sin);
}
