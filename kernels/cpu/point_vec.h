// Helpers for kernels over rows of any length: vectors that may extend beyond the end, and formulas that
// must not depend on how a compiler fuses them.

static __attribute__((noinline)) vf take_part(const float *p, int64_t n)
{
	float t[VL] = {0};
	if (n > 0)
		memcpy(t, p, 4 * n);
	return load(t);
}

static __attribute__((noinline)) void put_part(float *p, int64_t n, vf v)
{
	float t[VL];
	store(t, v);
	if (n > 0)
		memcpy(p, t, 4 * n);
}

// Elements i … i+VL−1 of p[n], zeros beyond the end.
INLINE vf load_partial(const float *p, int64_t i, int64_t n) { return i + VL <= n ? load(p + i) : take_part(p + i, n - i); }

// The same for rows that are contiguous in memory. It prefetches a page ahead, because the hardware's prefetchers stop at the end of a
// page.
enum { FLOATS_AHEAD = 1024 };
INLINE vf take_ahead(const float *p, int64_t i, int64_t n)
{
	__builtin_prefetch(p + i + FLOATS_AHEAD);
	return load_partial(p, i, n);
}

INLINE void store_partial(float *p, int64_t i, int64_t n, vf v)
{
	if (i + VL <= n)
		store(p + i, v);
	else
		put_part(p + i, n - i, v);
}

// Writes n numbers, scaled, to a row: around the caches, if asked for and if they are whole aligned vectors. Rows of results are often
// pages apart, where a store waits for the line that it overwrites. A task that writes around the caches must end with streams_end.
INLINE void put_row(float *row, const float *x, float scale, int64_t n, int around)
{
	if (!around || ((uintptr_t)row | 4 * n) % (4 * VL)) {
		for (int64_t i = 0; i < n; i += VL) store_partial(row, i, n, load_partial(x, i, n) * scale);
		return;
	}
	for (int64_t i = 0; i < n; i += VL) stream(row + i, load(x + i) * scale);
}

// a·b + c·d as a chain of two fused steps from zero.
INLINE vf two_products(vf a, vf b, vf c, vf d)
{
	return fused(c, d, fused(a, b, splat(0)));
}

INLINE vf two_products_minus(vf a, vf b, vf c, vf d)
{
	return fused(-c, d, fused(a, b, splat(0)));
}

// Correctly rounded, as every processor does it; the compiler's own sqrt calls libm to set errno.
INLINE vf vsqrt(vf x)
{
	vf r;
#if defined(__x86_64__) && VL == 4
	__asm__("sqrtps %1, %0" : "=x"(r) : "x"(x));
#elif defined(__x86_64__)
	__asm__("vsqrtps %1, %0" : "=v"(r) : "v"(x));
#elif defined(__aarch64__)
	__asm__("fsqrt %0.4s, %1.4s" : "=w"(r) : "w"(x));
#else
	for (int i = 0; i < VL; i++) r[i] = __builtin_sqrtf(x[i]);
#endif
	return r;
}

// Σ a·b over a row, in 16 lanes.
INLINE float row_dot(const float *a, const float *b, int64_t n)
{
	lanes sum = lanes_of(0);
	for (int64_t i = 0; i < n; i += LANES)
		UNROLL for (int v = 0; v < LANE_VECTORS; v++)
			sum.v[v] = fused(load_partial(a, i + v * VL, n), load_partial(b, i + v * VL, n), sum.v[v]);
	return lanes_sum(&sum);
}

// 1 / sqrt(mean(x²) + eps)
INLINE float inverse_root(const float *x, int64_t n, float eps)
{
	vf root = vsqrt(splat(row_dot(x, x, n) / (float)n + eps));
	return 1 / root[0];
}
