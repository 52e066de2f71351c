// Kernels that process rows independently. Some make two passes over a row, since the second finds
// it in the first-level cache.

// Where to compute row t of n numbers: in out; or in scratch, if rows of out are rounded (apart is their stride in bytes) or are written
// around the caches.
INLINE float *row_to_make(float *out, int64_t t, int64_t n, int64_t apart, int64_t around, void *scratch)
{
	return apart || around ? scratch : out + t * n;
}

// Moves a computed row to out, if it is not there already.
INLINE void row_made(float *out, int64_t t, int64_t n, int64_t apart, const float *row)
{
	if (apart)
		pack_row((char *)out + t * apart, row, n, 0);
	else if (row != out + t * n)
		put_row(out + t * n, row, 1, n, 1);
}

// The same for a row of heads, for attention.
INLINE void heads_made(float *out, int64_t t, int64_t n, int64_t apart, int64_t around, float *row, int64_t queries, float scale)
{
	if (apart)
		pack_heads((char *)out + t * apart, row, queries, scale, n, around);
	else
		row_made(out, t, n, 0, row);
}

static void embed(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_embed *a = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		read_row(a->out + t * a->m.cols, &a->m, a->ids[t], 0, a->m.cols);
	}
}

static void embed_grad(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_embed_grad *a = args;
	(void)scratch;
	int64_t c0 = from * SUM_COLUMNS, c1 = min64(to * SUM_COLUMNS, a->cols);
	for (int64_t t = 0; t < a->rows; t++) {
		float *dw = a->d_table + a->ids[t] * a->cols;
		const float *d = a->d_out + t * a->cols;
		for (int64_t c = c0; c < c1; c += VL) store_partial(dw, c, c1, load_partial(dw, c, c1) + load_partial(d, c, c1));
	}
}

static void rms_norm(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_rms_norm *a = args;
	int64_t n = a->cols;
	for (int64_t t = from; t < to; t++) {
		const float *x = a->x + t * n;
		float *row = row_to_make(a->out, t, n, a->apart, 0, scratch), r = inverse_root(x, n, a->eps);
		for (int64_t i = 0; i < n; i += VL) {
			vf w = load_partial(a->weight, i, n) - a->minus;
			store_partial(row, i, n, take_ahead(x, i, n) * r * w);
		}
		row_made(a->out, t, n, a->apart, row);
	}
}

// dx = r·(dy·w) − x·r³/n · Σ dy·w·x, the gradient of w·x·r with r = 1/sqrt(mean(x²) + eps), where w is the weight − minus.
INLINE void norm_grad(float *dx, const float *dy, const float *x, const float *w, int64_t n, float eps, float minus)
{
	lanes sum = lanes_of(0);
	for (int64_t i = 0; i < n; i += LANES)
		UNROLL for (int v = 0; v < LANE_VECTORS; v++)
		{
			int64_t j = i + v * VL;
			vf wj = load_partial(w, j, n) - minus, g = load_partial(dy, j, n) * wj;
			sum.v[v] = fused(g, load_partial(x, j, n), sum.v[v]);
		}
	float r = inverse_root(x, n, eps), along = lanes_sum(&sum) * (r * r * r) / (float)n;
	for (int64_t i = 0; i < n; i += VL) {
		vf wi = load_partial(w, i, n) - minus, g = take_ahead(dy, i, n) * wi;
		store_partial(dx, i, n, two_products_minus(g, splat(r), take_ahead(x, i, n), splat(along)));
	}
}

static void rms_norm_grad_x(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_rms_norm_grad_x *a = args;
	int64_t n = a->cols;
	(void)scratch;
	for (int64_t t = from; t < to; t++) norm_grad(a->out + t * n, a->dy + t * n, a->x + t * n, a->weight, n, a->eps, a->minus);
}

static void inverse_rms(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_inverse_rms *a = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++)
		for (int64_t h = 0; h < a->heads; h++)
			a->out[t * a->heads + h] = inverse_root(a->x + t * a->stride + h * a->cols, a->cols, a->eps);
}

static void rms_norm_grad_w(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_rms_norm_grad_w *a = args;
	int64_t n = a->cols;
	(void)scratch;
	for (int64_t task = from; task < to; task++) {
		int64_t c0 = task * SUM_COLUMNS, c1 = min64(c0 + SUM_COLUMNS, n);
		float sum[SUM_COLUMNS] = {0};
		for (int64_t t = 0; t < a->rows; t++)
			for (int64_t c = c0; c < c1; c += VL) {
				vf product = load_partial(a->dy + t * n, c, c1) * load_partial(a->x + t * n, c, c1);
				store(sum + c - c0, fused(product, splat(a->inverse[t]), load(sum + c - c0)));
			}
		for (int64_t c = c0; c < c1; c += VL) store_partial(a->dw, c, c1, load_partial(a->dw, c, c1) + load(sum + c - c0));
	}
}

// y = x rotated by the angles of a row of the rope table; backward rotates back. In place is fine.
INLINE void rotate(float *y, const float *x, const float *rope, int64_t half, int backward)
{
	for (int64_t i = 0; i < half; i += VL) {
		vf a = load_partial(x, i, half), b = load_partial(x + half, i, half);
		vf c = load_partial(rope, i, half), s = load_partial(rope + half, i, half);
		if (backward)
			s = -s;
		store_partial(y, i, half, two_products_minus(a, c, b, s));
		store_partial(y + half, i, half, two_products(b, c, a, s));
	}
}

static void rope(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_rope *a = args;
	int64_t n = a->dim, heads = a->q_heads + a->kv_heads, width = (heads + a->kv_heads) * n;
	for (int64_t t = from; t < to; t++) {
		const float *x = a->x + t * width;
		float *row = row_to_make(a->out, t, width, a->apart, a->stream, scratch);
		for (int64_t h = 0; h < heads; h++) rotate(row + h * n, x + h * n, a->rope + t * n, n / 2, a->back);
		memcpy(row + heads * n, x + heads * n, 4 * a->kv_heads * n);
		if (a->back)
			row_made(a->out, t, width, a->apart, row);
		else
			heads_made(a->out, t, width, a->apart, a->stream, row, a->q_heads * n, a->scale);
	}
	streams_end();
}

static void qk_norm_rope(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_qk_norm_rope *a = args;
	int64_t n = a->dim, heads = a->q_heads + a->kv_heads, width = (heads + a->kv_heads) * n;
	float *normed = (float *)scratch + width;
	for (int64_t t = from; t < to; t++) {
		const float *x = a->x + t * width;
		float *row = row_to_make(a->out, t, width, a->apart, a->stream, scratch);
		for (int64_t h = 0; h < heads; h++) {
			const float *w = h < a->q_heads ? a->qw : a->kw;
			float r = inverse_root(x + h * n, n, a->eps);
			for (int64_t i = 0; i < n; i += VL) store_partial(normed, i, n, take_ahead(x + h * n, i, n) * r * load_partial(w, i, n));
			rotate(row + h * n, normed, a->rope + t * n, n / 2, 0);
		}
		memcpy(row + heads * n, x + heads * n, 4 * a->kv_heads * n);
		heads_made(a->out, t, width, a->apart, a->stream, row, a->q_heads * n, a->scale);
	}
	streams_end();
}

static void qk_norm_rope_grad_x(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_qk_norm_rope_grad_x *a = args;
	int64_t n = a->dim, heads = a->q_heads + a->kv_heads, width = (heads + a->kv_heads) * n;
	float *d_normed = (float *)scratch + width;
	for (int64_t t = from; t < to; t++) {
		const float *row = a->x + t * width, *dy = a->dy + t * width;
		float *dx = row_to_make(a->out, t, width, a->apart, 0, scratch);
		for (int64_t h = 0; h < heads; h++) {
			rotate(d_normed, dy + h * n, a->rope + t * n, n / 2, 1);
			norm_grad(dx + h * n, d_normed, row + h * n, h < a->q_heads ? a->qw : a->kw, n, a->eps, 0);
		}
		memcpy(dx + heads * n, dy + heads * n, 4 * a->kv_heads * n);
		row_made(a->out, t, width, a->apart, dx);
	}
}

// Columns [i, i+ROPE_COLUMNS) of the first half and their partners in the second, over rows and then heads.
INLINE void rope_grad_columns(const grpo_qk_norm_rope_grad_w *a, float *dw, int64_t head0, int64_t head1, int64_t i)
{
	int64_t n = a->dim, half = n / 2, heads = a->q_heads + a->kv_heads, width = (heads + a->kv_heads) * n;
	for (int64_t end = min64(i + ROPE_COLUMNS, half); i < end; i += VL) {
		vf low = splat(0), high = splat(0);
		for (int64_t t = 0; t < a->rows; t++) {
			vf c = load_partial(a->rope + t * n, i, half), s = load_partial(a->rope + t * n + half, i, half);
			for (int64_t h = head0; h < head1; h++) {
				const float *dy = a->dy + t * width + h * n, *x = a->x + t * width + h * n;
				vf d0 = load_partial(dy, i, half), d1 = load_partial(dy + half, i, half);
				float r = a->inverse[t * heads + h];
				vf n0 = load_partial(x, i, half) * r, n1 = load_partial(x + half, i, half) * r;
				low = fused(two_products(d0, c, d1, s), n0, low);
				high = fused(two_products_minus(d1, c, d0, s), n1, high);
			}
		}
		store_partial(dw, i, half, load_partial(dw, i, half) + low);
		store_partial(dw + half, i, half, load_partial(dw + half, i, half) + high);
	}
}

static void qk_norm_rope_grad_w(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_qk_norm_rope_grad_w *a = args;
	int64_t blocks = (a->dim / 2 + ROPE_COLUMNS - 1) / ROPE_COLUMNS;
	(void)scratch;
	for (int64_t task = from; task < to; task++) {
		int64_t i = task % blocks * ROPE_COLUMNS;
		if (task < blocks)
			rope_grad_columns(a, a->dqw, 0, a->q_heads, i);
		else
			rope_grad_columns(a, a->dkw, a->q_heads, a->q_heads + a->kv_heads, i);
	}
}

static void swiglu(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_swiglu *a = args;
	int64_t n = a->cols;
	for (int64_t t = from; t < to; t++) {
		const float *gate = a->x + t * 2 * n, *up = gate + n;
		float *row = row_to_make(a->out, t, n, a->apart, 0, scratch);
		for (int64_t i = 0; i < n; i += VL) {
			vf g = take_ahead(gate, i, n);
			store_partial(row, i, n, g / (vexp(-g) + 1.0f) * take_ahead(up, i, n));
		}
		row_made(a->out, t, n, a->apart, row);
	}
}

static void swiglu_grad(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_swiglu_grad *a = args;
	int64_t n = a->cols;
	for (int64_t t = from; t < to; t++) {
		const float *gate = a->x + t * 2 * n, *up = gate + n;
		float *d_gate = row_to_make(a->out, t, 2 * n, a->apart, 0, scratch), *d_up = d_gate + n;
		for (int64_t i = 0; i < n; i += VL) {
			vf g = take_ahead(gate, i, n), d = take_ahead(a->dy + t * n, i, n);
			vf sigmoid = 1.0f / (vexp(-g) + 1.0f), silu = g * sigmoid;
			vf rest = 1.0f - sigmoid, slope = fused(silu, rest, sigmoid);
			store_partial(d_gate, i, n, d * take_ahead(up, i, n) * slope);
			store_partial(d_up, i, n, d * silu);
		}
		row_made(a->out, t, 2 * n, a->apart, d_gate);
	}
}

// The z for which the tanh form of gelu is g · sigmoid(z), and its derivative by g.
INLINE vf gelu_inner(vf g, vf *slope)
{
	const float c = 1.59576912f, cubic = 0.0713548163f; // 2·sqrt(2/π), and 0.044715 times that
	vf square = g * g;
	*slope = fused(square, splat(3 * cubic), splat(c));
	vf rise = fused(square, splat(cubic), splat(c));
	return g * rise;
}

static void geglu(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_geglu *a = args;
	int64_t n = a->cols;
	for (int64_t t = from; t < to; t++) {
		const float *gate = a->x + t * 2 * n, *up = gate + n;
		float *row = row_to_make(a->out, t, n, a->apart, 0, scratch);
		for (int64_t i = 0; i < n; i += VL) {
			vf g = take_ahead(gate, i, n), slope, z = gelu_inner(g, &slope);
			store_partial(row, i, n, g / (vexp(-z) + 1.0f) * take_ahead(up, i, n));
		}
		row_made(a->out, t, n, a->apart, row);
	}
}

static void geglu_grad(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_geglu_grad *a = args;
	int64_t n = a->cols;
	for (int64_t t = from; t < to; t++) {
		const float *gate = a->x + t * 2 * n, *up = gate + n;
		float *d_gate = row_to_make(a->out, t, 2 * n, a->apart, 0, scratch), *d_up = d_gate + n;
		for (int64_t i = 0; i < n; i += VL) {
			vf g = take_ahead(gate, i, n), d = take_ahead(a->dy + t * n, i, n), inner, z = gelu_inner(g, &inner);
			vf e = vexp_low(vmin(splat(80), -z)), share = 1.0f / (e + 1.0f), gelu = g * share;
			vf rest = e * share, along = gelu * rest, slope = fused(along, inner, share); // rest is 1 − share, but also precise near 0
			store_partial(d_gate, i, n, d * take_ahead(up, i, n) * slope);
			store_partial(d_up, i, n, d * gelu);
		}
		row_made(a->out, t, 2 * n, a->apart, d_gate);
	}
}

static void scale(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_scale *a = args;
	int64_t end = min64(to * RUN, a->n);
	(void)scratch;
	for (int64_t i = from * RUN; i < end; i += VL) store_partial(a->out, i, end, load_partial(a->x, i, end) * a->by);
}

static void add(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_add *a = args;
	int64_t end = min64(to * RUN, a->n);
	(void)scratch;
	for (int64_t i = from * RUN; i < end; i += VL) store_partial(a->out, i, end, take_ahead(a->a, i, end) + take_ahead(a->b, i, end));
}
