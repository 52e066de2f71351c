// The output head: log-probabilities without all logits in memory at once.
//
// The vocabulary is processed in chunks of HEAD_CHUNK. A chunk of logits of some rows is computed into scratch
// and reduced at once to three numbers per row; these are combined in ascending order of the chunks. So it
// makes no difference which worker computes which chunk, or for how many rows at once.
//
// For the gradient all workers process the chunks in order: logits, then weights relative to the largest
// logit so far, then their product with the chunk's rows of w, added to the sum of the chunks before, which
// is rescaled to the same maximum. The log-probability comes from the same partials either way.

INLINE void soft_cap_logits(float *logits, int64_t width, grpo_logit_form f)
{
	if (f.cap != 0)
		for (int64_t v = 0; v < width; v += VL) store(logits + v, soft_cap(load(logits + v), f.cap) * f.inv_temp);
}

// The derivative of a capped logit by the logit before capping, given the capped and scaled logit.
INLINE vf slope_of(vf logit, grpo_logit_form f)
{
	vf capped = logit * (1 / (f.cap * f.inv_temp));
	return fused(-capped, capped, splat(1));
}

// Reduces the logits of one row and one chunk to a partial. It pads the row to whole vectors. With
// exponentiate it replaces l by exp(l − max).
INLINE grpo_partial reduce(float *logits, int64_t width, const int exponentiate)
{
	const float none = -__builtin_inff();
	for (; width % LANES; width++) logits[width] = none;
	lanes top = lanes_of(none);
	for (int64_t v = 0; v < width; v += LANES)
		UNROLL for (int i = 0; i < LANE_VECTORS; i++) top.v[i] = vmax(load(logits + v + i * VL), top.v[i]);
	float max = lanes_max(&top);
	lanes sum = lanes_of(0), moment = lanes_of(0);
	for (int64_t v = 0; v < width; v += LANES)
		UNROLL for (int i = 0; i < LANE_VECTORS; i++)
		{
			vf d = load(logits + v + i * VL) - max;
			vf e = vexp_low(d);
			if (exponentiate)
				store(logits + v + i * VL, e);
			sum.v[i] += e;
			moment.v[i] = fused(e, vmax(d, splat(-200)), moment.v[i]); // 0·(−200), because 0·(−∞) is NaN
		}
	return (grpo_partial){max, lanes_sum(&sum), lanes_sum(&moment)};
}

INLINE grpo_partial reduce_logits(float *logits, int64_t width) { return reduce(logits, width, 0); }
INLINE grpo_partial exponentiate_logits(float *logits, int64_t width) { return reduce(logits, width, 1); }

// Stores the logit of a row's target if the target is in the chunk.
INLINE void keep_target(float *kept, const float *logits, int32_t target, int64_t first, int64_t width)
{
	if (target >= first && target < first + width)
		*kept = logits[target - first];
}

// Reduces the logits of a chunk and of rows [row0, row1) to partials.
static void reduce_rows(const grpo_head_chunks *h, float *logits, int64_t row0, int64_t row1, int64_t chunk)
{
	int64_t first = chunk * HEAD_CHUNK, width = min64(HEAD_CHUNK, h->g.cols - first);
	for (int64_t row = row0; row < row1; row++, logits += LOGIT_STRIDE) {
		soft_cap_logits(logits, width, h->form);
		keep_target(h->target_logits + row, logits, h->targets[row], first, width);
		h->partials[row * h->chunks + chunk] = reduce_logits(logits, width);
	}
}

static void head_chunks(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_head_chunks *h = args;
	const grpo_gemm *g = &h->g;
	int64_t blocks = (g->row_tiles + g->block_tiles - 1) / g->block_tiles;
	float *logits = (float *)scratch + (DEPTH + g->block_tiles * MR) * PANEL;
	for (int64_t t = from; t < to; t++) {
		int64_t chunk = t / blocks, tile0 = t % blocks * g->block_tiles;
		int64_t tile1 = min64(tile0 + g->block_tiles, g->row_tiles);
		int64_t row0 = tile_start(g->rows, g->row_tiles, tile0), row1 = tile_start(g->rows, g->row_tiles, tile1);
		int64_t first = chunk * HEAD_CHUNK, width = min64(HEAD_CHUNK, g->cols - first);
		for (int64_t c = 0; c < width; c += PANEL)
			gemm_panel(g, scratch, tile0, tile1, (first + c) / PANEL, logits + c);
		reduce_rows(h, logits, row0, row1, chunk);
	}
}

// head_chunks in the order of tiles.
static void tiles_head_chunks(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_head_chunks *h = args;
	const grpo_gemm *g = &h->g;
	int64_t blocks = (g->row_tiles + g->block_tiles - 1) / g->block_tiles;
	float *logits = (float *)((char *)scratch + grpo_tiles_scratch(g->block_tiles, TILE_PANELS));
	for (int64_t t = from; t < to; t++) {
		int64_t chunk = t / blocks, tile0 = t % blocks * g->block_tiles;
		int64_t tile1 = min64(tile0 + g->block_tiles, g->row_tiles);
		int64_t panel = chunk * (HEAD_CHUNK / PANEL), end = min64(panel + HEAD_CHUNK / PANEL, (g->cols + PANEL - 1) / PANEL);
		for (int64_t p = panel; p < end; p += TILE_PANELS)
			tiles_block(g, scratch, tile0, tile1, p, min64(p + TILE_PANELS, end), logits + (p - panel) * PANEL);
		reduce_rows(h, logits, tile0 * TILE, min64(tile1 * TILE, g->rows), chunk);
	}
}

// Turns logits into weights exp(l − max)·shrink, where max is the chunk's own, times the slope of a capped l. Without a cap the logits
// are already exp(l − max).
INLINE void weigh_logits(float *logits, int64_t width, float max, float shrink, grpo_logit_form f)
{
	for (int64_t v = 0; v < width; v += VL) {
		vf l = load(logits + v);
		store(logits + v, f.cap != 0 ? vexp_low(l - max) * shrink * slope_of(l, f) : l * shrink);
	}
}

// Turns the logits of one row into its partial and its weights.
static void weigh_row(const grpo_head_weights *h, float *l, int64_t row)
{
	soft_cap_logits(l, h->width, h->logit_form);
	keep_target(h->target_logits + row, l, h->targets[row], h->chunk * HEAD_CHUNK, h->width);
	grpo_partial p = h->logit_form.cap != 0 ? reduce_logits(l, h->width) : exponentiate_logits(l, h->width);
	h->partials[row * h->chunks + h->chunk] = p;
	float before = h->chunk ? h->running[row] : p.max, now = before > p.max ? before : p.max;
	h->running[row] = now;
	h->scale[row] = exp1(before - now);
	weigh_logits(l, h->width, p.max, exp1(p.max - now), h->logit_form);
}

// The same for a tile of rows in the order of tiles. The intermediate values of a row stay in the first-level cache.
static void weigh_tile(const grpo_head_weights *h, int64_t t)
{
	float l[HEAD_CHUNK] __attribute__((aligned(64)));
	char *packed = packed_tile(h->packed, t, left_tile_bytes(h->width, h->pieces));
	for (int64_t row = t * TILE; row < (t + 1) * TILE; row++, packed += 4 * TILE) {
		const float *from = h->logits + row * PANEL;
		for (int64_t v = 0; v < h->width && row < h->rows; v += PANEL, from += h->rows * PANEL) {
			prefetch_lines((const char *)(from + 2 * PANEL), 2);
			UNROLL for (int i = 0; i < PANEL; i += VL) store(l + v + i, load(from + i));
		}
		int64_t count = row < h->rows ? h->width : 0; // rows below the last are zeros
		if (count)
			weigh_row(h, l, row);
		memset(l + count, 0, 4 * (tile_steps(h->width) * TILE_INPUTS - count));
		for (int64_t k = 0; k < h->width; k += TILE_INPUTS)
			pack_inputs(packed + k / TILE_INPUTS * h->pieces * TURN_BYTES, l + k, h->pieces, 0);
	}
}

// The same for all given chunks, one after the other.
static void weigh_chunks(const grpo_head_weights *h, int64_t t)
{
	const int64_t bytes = left_tile_bytes(HEAD_CHUNK, h->pieces) * ((h->tiles + 1) & ~1);
	grpo_head_weights one = *h;
	for (int64_t v = 0; v < h->width; v += HEAD_CHUNK) {
		one.width = min64(HEAD_CHUNK, h->width - v);
		weigh_tile(&one, t);
		one.chunk++;
		one.logits += HEAD_CHUNK * h->rows;
		one.packed = (float *)((char *)one.packed + bytes);
		one.scale += h->rows;
	}
}

static void head_weights(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_head_weights *h = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		if (h->pieces) {
			weigh_chunks(h, t);
			continue;
		}
		int64_t row0 = tile_start(h->rows, h->tiles, t), row1 = tile_start(h->rows, h->tiles, t + 1);
		for (int64_t row = row0; row < row1; row++) weigh_row(h, h->logits + row * LOGIT_STRIDE, row);
		pack_tile(h->packed + row0 * packed_steps(h->width, h->form), h->logits + row0 * LOGIT_STRIDE, LOGIT_STRIDE,
		          row1 - row0, h->width, h->form == PAIRED ? 2 * pairs_of(h->width) : h->width, h->form);
	}
}

// The partials of all chunks combined, relative to the largest logit.
typedef struct {
	float max;
	double sum, moment, log_sum;
} grpo_total;

static grpo_total add_partials(const grpo_partial *p, int64_t chunks)
{
	grpo_total t = {.max = p[0].max};
	for (int64_t c = 1; c < chunks; c++) t.max = p[c].max > t.max ? p[c].max : t.max;
	for (int64_t c = 0; c < chunks; c++) {
		float d = p[c].max - t.max;
		double shrink = exp1(d), s = p[c].sum, m = p[c].moment;
		if (shrink == 0)
			continue;
		m = fused_double(s, d, m);
		t.sum = fused_double(s, shrink, t.sum);
		t.moment = fused_double(m, shrink, t.moment);
	}
	t.log_sum = log1(t.sum);
	return t;
}

INLINE float log_probability(float logit, const grpo_total *t)
{
	double lse = t->max + t->log_sum;
	return logit - lse;
}

// The entropy is log S − Σ exp(l − m)·(l − m) / S, with m the maximum and S the sum over all chunks; a chunk
// knows both sums relative to its own maximum.
static void head_combine(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_head_combine *h = args;
	(void)scratch;
	for (int64_t row = from; row < to; row++) {
		grpo_total t = add_partials(h->partials + row * h->chunks, h->chunks);
		int64_t i = h->index[row];
		h->lse[i] = t.max + t.log_sum;
		h->logp[i] = log_probability(h->target_logits[row], &t);
		h->entropy[i] = t.log_sum - t.moment / t.sum;
		h->inverse_sum[row] = 1 / t.sum;
	}
}

static void head_jacobian(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_head_jacobian *h = args;
	(void)scratch;
	for (int64_t row = from; row < to; row++) {
		const float *mean = h->mean + row * h->mean_stride;
		float *out = h->jacobian + h->index[row] * h->width, inverse = h->inverse_sum[row];
		read_row(out, &h->w, h->targets[row], 0, h->width);
		if (h->form.cap != 0) {
			vf slope = slope_of(splat(h->target_logits[row]), h->form);
			for (int64_t k = 0; k < h->width; k++) out[k] *= slope[0];
		}
		for (int64_t k0 = 0; k0 < h->width; k0 += PANEL, mean += h->mean_apart)
			for (int64_t k = k0; k < min64(k0 + PANEL, h->width); k++)
				out[k] = fused_float(-mean[k - k0], inverse, out[k]) * h->form.inv_temp;
	}
}

static void head_grad_logits(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_head_grad_logits *h = args;
	(void)scratch;
	for (int64_t row = from; row < to; row++) {
		float *l = h->logits + row * LOGIT_STRIDE, lse = h->lse[h->index[row]];
		float scale = h->dlogp[h->index[row]] * h->form.inv_temp, of_target = scale;
		int64_t target = h->targets[row] - h->chunk * HEAD_CHUNK;
		int here = target >= 0 && target < h->width;
		soft_cap_logits(l, h->width, h->form);
		if (here && h->form.cap != 0) {
			vf slope = slope_of(splat(l[target]), h->form);
			of_target = scale * slope[0];
		}
		for (int64_t v = 0; v < h->width; v += VL) {
			vf x = load(l + v), d = x - lse, change = vexp(d) * -scale;
			store(l + v, h->form.cap != 0 ? change * slope_of(x, h->form) : change);
		}
		if (here)
			l[target] += of_target;
	}
}

static void scale_rows(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_scale_rows *s = args;
	(void)scratch;
	for (int64_t row = from; row < to; row++)
		for (int64_t k = 0; k < s->width; k++) s->out[row * s->width + k] = s->x[row * s->width + k] * s->scale[row];
}

static void gather_rows(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_gather_rows *g = args;
	(void)scratch;
	for (int64_t row = from; row < to; row++)
		memcpy(g->out + row * g->width, g->x + g->index[row] * g->width, g->width * sizeof(float));
}
