// Kernels over the parameters and gradients of the optimizer.

// Half a vector of floats fills a vector of doubles.
typedef float half_vf __attribute__((vector_size(2 * VL)));
typedef float half_vf_any __attribute__((vector_size(2 * VL), aligned(4), may_alias));
typedef double vd __attribute__((vector_size(4 * VL)));

// The squares of floats are exact in double precision; they are summed in 16 lanes, which are then added in order.
static void sum_squares(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_sum_squares *a = args;
	enum { VECTORS = LANES / (VL / 2) };
	(void)scratch;
	for (int64_t task = from; task < to; task++) {
		int64_t i = task * RUN, end = min64(i + RUN, a->n);
		vd sum[VECTORS] = {{0}};
		for (; i < end; i += LANES) {
			float tail[LANES] = {0};
			const float *x = a->x + i;
			if (i + LANES > end)
				x = memcpy(tail, x, 4 * (end - i));
			UNROLL for (int v = 0; v < VECTORS; v++)
			{
				vd d = __builtin_convertvector(*(const half_vf_any *)(x + v * VL / 2), vd);
				sum[v] += d * d; // d · d is exact
			}
		}
		double total = 0;
		UNROLL for (int v = 0; v < VECTORS; v++)
			for (int j = 0; j < VL / 2; j++) total += sum[v][j];
		a->out[task] = total;
	}
}

static void adam(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_adam *a = args;
	int64_t end = min64(to * RUN, a->n);
	(void)scratch;
	for (int64_t i = from * RUN; i < end; i += VL) {
		vf g = load_partial(a->g, i, end) * a->scale, p = load_partial(a->p, i, end);
		vf m = two_products(g, splat(1 - a->beta1), load_partial(a->m, i, end), splat(a->beta1));
		vf v = two_products(g * g, splat(1 - a->beta2), load_partial(a->v, i, end), splat(a->beta2));
		p = fused(-p, splat(a->decay), p);
		p = p - m / a->correction1 * a->rate / (vsqrt(v / a->correction2) + a->eps);
		store_partial(a->p, i, end, p);
		store_partial(a->m, i, end, m);
		store_partial(a->v, i, end, v);
	}
}
