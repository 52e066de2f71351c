// Causal attention with an online softmax over blocks of keys. A row's numbers depend on its query and
// on the blocks up to its own position, one after the other; which other rows share its tile does not
// matter, since what is masked adds exactly nothing.

// One row of a tile: its query, scaled, and zeroes up to the padded size.
INLINE void copy_scaled(float *to, const float *q, float scale, int64_t dim)
{
	for (int64_t k = 0; k < padded(dim); k += VL) store(to + k, take(q, k, dim) * scale);
}

// One query row: its position in the sequence, the query, and where the outputs go.
typedef struct {
	int64_t position;
	const float *q;
	float *out, *lse;
} query;

// The lanes that key numbers beyond limit occupy become `no`.
INLINE vf mask_after(vf x, int first, int64_t limit, vf no)
{
	static const int32_t count[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	vi number = loadi(count) + first;
	return pick(number <= (int32_t)min64(limit, KEYS), x, no);
}

// The same of key numbers before a first one.
INLINE vf mask_before(vf x, int lane, int64_t first, vf no)
{
	return mask_after(no, lane, first - 1, x);
}

// The first block that a query at a position reads.
INLINE int64_t first_block(int64_t position, int64_t window) { return max64(0, position + 1 - window) / KEYS; }

// x with its lanes moved by n, round the end.
#if VL == 16
#define ROUND(x, n)                                                                                                            \
	SHUFFLE(x, x, n, (n + 1) % 16, (n + 2) % 16, (n + 3) % 16, (n + 4) % 16, (n + 5) % 16, (n + 6) % 16, (n + 7) % 16,     \
	        (n + 8) % 16, (n + 9) % 16, (n + 10) % 16, (n + 11) % 16, (n + 12) % 16, (n + 13) % 16, (n + 14) % 16, (n + 15) % 16)
#elif VL == 8
#define ROUND(x, n) SHUFFLE(x, x, n, (n + 1) % 8, (n + 2) % 8, (n + 3) % 8, (n + 4) % 8, (n + 5) % 8, (n + 6) % 8, (n + 7) % 8)
#else
#define ROUND(x, n) SHUFFLE(x, x, n, (n + 1) % 4, (n + 2) % 4, (n + 3) % 4)
#endif

// The largest of VL numbers; the order does not matter.
INLINE float vector_max(vf x)
{
#if VL == 16
	x = vmax(x, ROUND(x, 8));
#endif
#if VL >= 8
	x = vmax(x, ROUND(x, 4));
#endif
	x = vmax(x, ROUND(x, 2));
	x = vmax(x, ROUND(x, 1));
	return x[0];
}

// What the rows of a tile carry from block to block.
typedef struct {
	float max[TILE_FORWARD];        // the running maximum of the scores
	float sum[TILE_FORWARD][LANES]; // of exponentials below it
	float shrink[TILE_FORWARD];     // the maximum before the block minus that after it
	float score[TILE_FORWARD][KEYS]; // of the block, then its exponentials
} softmax_state;
_Static_assert(sizeof(softmax_state) == 4 * SOFTMAX_FLOATS, "the launcher's idea of softmax_state");

// Each of the three steps is a loop over all rows, so that their branches and chains overlap.

// Bends scores, masks those beyond limit and before first, and updates the running maximum.
INLINE void update_max(softmax_state *s, int i, int64_t first, int64_t limit, float cap)
{
	vf x[KEYS / VL];
	UNROLL for (int v = 0; v < KEYS / VL; v++) x[v] = load(s->score[i] + v * VL);
	if (cap != 0)
		UNROLL for (int v = 0; v < KEYS / VL; v++)
		{
			x[v] = bend(x[v], cap);
			store(s->score[i] + v * VL, x[v]);
		}
	if (first > 0)
		UNROLL for (int v = 0; v < KEYS / VL; v++)
		{
			x[v] = mask_before(x[v], v * VL, first, splat(-__builtin_inff()));
			store(s->score[i] + v * VL, x[v]);
		}
	if (limit < KEYS - 1)
		UNROLL for (int v = 0; v < KEYS / VL; v++)
		{
			x[v] = mask_after(x[v], v * VL, limit, splat(-__builtin_inff()));
			store(s->score[i] + v * VL, x[v]);
		}
	vf largest = x[0];
	UNROLL for (int v = 1; v < KEYS / VL; v++) largest = vmax(x[v], largest);
	float before = s->max[i], max = vector_max(largest);
	s->max[i] = max > before ? max : before;
	s->shrink[i] = before == s->max[i] ? 0 : before - s->max[i]; // both are −∞ before the window
}

// Rescales the sums to a maximum that has grown.
INLINE void rescale_sums(softmax_state *s, int i, float *mean, int64_t wide)
{
	if (s->shrink[i] == 0)
		return;
	float shrink = exp1(s->shrink[i]);
	UNROLL for (int v = 0; v < LANE_VECTORS; v++) store(s->sum[i] + v * VL, load(s->sum[i] + v * VL) * shrink);
	for (int64_t c = 0; c < wide; c += VL) store(mean + c, load(mean + c) * shrink);
}

// Scores become exponentials, and their sum grows.
INLINE void exponentials(softmax_state *s, int i)
{
	lanes sum;
	float max = s->max[i] == -__builtin_inff() ? 0 : s->max[i]; // where nothing is read yet there are but −∞, and NaN, which stays
	UNROLL for (int v = 0; v < LANE_VECTORS; v++) sum.v[v] = load(s->sum[i] + v * VL);
	UNROLL for (int v = 0; v < KEYS / VL; v++)
	{
		vf p = vexp(load(s->score[i] + v * VL) - max);
		store(s->score[i] + v * VL, p);
		sum.v[v % LANE_VECTORS] += p;
	}
	UNROLL for (int v = 0; v < LANE_VECTORS; v++) store(s->sum[i] + v * VL, sum.v[v]);
}

// What attend multiplies with keys and values: for products in series queries transposed, [dim][TILE_FORWARD]; in the
// order of tiles left-hand sides of queries and of weights. And their means so far, [TILE_FORWARD][padded dim].
typedef struct {
	float *transposed, *mean;
	char *queries, *weights;
	tile_file file;
} attend_space;

// Tiles of rows as a left-hand side.
INLINE void pack_left(char *left, const float *x, int64_t stride, int rows, int64_t inner)
{
	for (int i = 0; i < rows; i += TILE)
		pack_left_tile(left + i / TILE * left_tile_bytes(inner, 1), TILE_BYTES, x + i * stride, stride, min64(TILE, rows - i), inner, 1);
}

// What becomes of scores, and how many keys a query reads.
typedef struct {
	float scale, cap;
	int64_t window;
} score_form;

// Queries, scaled, in the form in which they are multiplied.
INLINE void pack_queries(const int tiled, attend_space *w, const query *rows, int n, float scale, int64_t dim)
{
	int64_t wide = padded(dim);
	for (int i = 0; i < n; i++) copy_scaled(w->mean + i * wide, rows[i].q, scale, dim);
	if (tiled)
		pack_left(w->queries, w->mean, wide, n, dim);
	else
		transpose_rows(w->transposed, TILE_FORWARD, w->mean, wide, n, dim);
	memset(w->mean, 0, 4 * n * wide);
}

INLINE void prefetch_block(const char *p, int64_t bytes)
{
#ifdef TILES_NATIVE
	for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
#else
	(void)p, (void)bytes;
#endif
}

// Scores of n queries with a block of keys, and what is read after that.
INLINE void score_block(const int tiled, attend_space *w, softmax_state *s, int n, const float *keys, const float *soon,
                        int64_t dim, int pairs)
{
	if (!tiled) {
		product((small_product){.out = s->score[0], .out_stride = KEYS, .a = w->transposed, .a_step = TILE_FORWARD,
		                        .b = keys, .b_stride = KEYS, .depth = dim, .cols = KEYS, .fresh = 1, .pairs = pairs,
		                        .soon = soon}, n, 1);
		return;
	}
	prefetch_block((const char *)soon, 2 * KEYS * padded(dim));
	add_tiles(&w->file, n, (tile_sum){
		.from = s->score[0], .to = s->score[0], .row = 4 * KEYS, .left = w->queries, .next_tile = left_tile_bytes(dim, 1),
		.right = (const char *)keys, .right_row = 4 * KEYS, .steps = tile_steps(dim), .pieces = 1, .fresh = 1});
}

// The means grow by the block's values under its exponentials, of which so many exist.
INLINE void mean_block(const int tiled, attend_space *w, softmax_state *s, int n, const float *values, int64_t exist,
                       const float *soon, int64_t dim, int pairs)
{
	int64_t wide = padded(dim);
	if (!tiled) {
		product((small_product){.out = w->mean, .out_stride = wide, .a = s->score[0], .b = values, .b_stride = wide,
		                        .depth = exist, .cols = wide, .pairs = pairs, .soon = soon}, n, 0);
		return;
	}
	prefetch_block((const char *)soon, 2 * KEYS * dim);
	pack_left(w->weights, s->score[0], KEYS, n, KEYS);
	for (int64_t c = 0; c < wide; c += PANEL)
		add_tiles(&w->file, n, (tile_sum){
			.from = w->mean + c, .to = w->mean + c, .row = 4 * wide, .left = w->weights, .next_tile = TILE_BYTES,
			.right = (const char *)(values + c), .right_row = 4 * wide, .steps = 1, .pieces = 1});
}

// Attention of up to TILE_FORWARD query rows of one sequence and key-value head. keys[b] is block b transposed,
// [dim][KEYS], values[b] is [KEYS][padded dim], both in pairs or not; positions from the first to the last that a query
// reads must be there. next are the keys that are likely to be read after that, for a prefetch.
INLINE void attend_in(const int tiled, const query *rows, int n, float *const *keys, float *const *values, const float *next,
                      int64_t dim, score_form form, int pairs, float *scratch)
{
	int64_t wide = padded(dim), last = 0;
	softmax_state *s = (softmax_state *)scratch;
	attend_space w = {.mean = scratch + SOFTMAX_FLOATS};
	w.transposed = w.mean + TILE_FORWARD * wide;
	w.queries = (char *)w.transposed;
	w.weights = w.queries + TILE_FORWARD / TILE * left_tile_bytes(dim, 1);
	for (int i = 0; i < n; i++) {
		s->max[i] = -__builtin_inff();
		last = max64(last, rows[i].position);
	}
	pack_queries(tiled, &w, rows, n, form.scale, dim);
	memset(s->sum, 0, sizeof s->sum);
	for (int64_t b = first_block(rows[0].position, form.window); b * KEYS <= last; b++) {
		score_block(tiled, &w, s, n, keys[b], values[b], dim, pairs);
		for (int i = 0; i < n; i++) {
			int64_t limit = rows[i].position - b * KEYS;
			update_max(s, i, limit + 1 - form.window, limit, form.cap);
		}
		for (int i = 0; i < n; i++) rescale_sums(s, i, w.mean + i * wide, wide);
		for (int i = 0; i < n; i++) exponentials(s, i);
		mean_block(tiled, &w, s, n, values[b], min64(KEYS, last + 1 - b * KEYS), (b + 1) * KEYS <= last ? keys[b + 1] : next,
		           dim, pairs);
	}
	for (int i = 0; i < n; i++) {
		lanes l;
		UNROLL for (int v = 0; v < LANE_VECTORS; v++) l.v[v] = load(s->sum[i] + v * VL);
		float sum = lanes_sum(&l), inverse = 1 / sum;
		*rows[i].lse = (float)(s->max[i] + log1(sum));
		for (int64_t k = 0; k < dim; k += VL) put(rows[i].out, k, dim, take(w.mean + i * wide, k, dim) * inverse);
	}
}

static void attend(const query *rows, int n, float *const *keys, float *const *values, const float *next, int64_t dim,
                   score_form form, int pairs, float *scratch)
{
	attend_in(0, rows, n, keys, values, next, dim, form, pairs, scratch);
}

// The same with products in the order of tiles. Keys and values are in pairs, and what they are multiplied with is rounded
// to bf16.
static void attend_tiles(const query *rows, int n, float *const *keys, float *const *values, const float *next, int64_t dim,
                         score_form form, float *scratch)
{
	uint64_t before = flush_subnormals();
	tile_begin();
	attend_in(1, rows, n, keys, values, next, dim, form, 1, (float *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63));
	tile_end();
	restore_subnormals(before);
}

static void attention(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_attention *a = args;
	int64_t dim = a->dim, group = a->q_heads / a->kv_heads, width = (a->q_heads + 2 * a->kv_heads) * dim;
	float **keys = scratch, **values = keys + a->longest, *rest = (float *)(values + a->longest);
	for (int64_t task = from; task < to; task++) {
		const grpo_tile *tile = a->tiles + a->tile_count - 1 - task / a->kv_heads; // long ones first
		const grpo_span *s = a->spans + tile->span;
		int64_t head = task % a->kv_heads;
		int n = min64(TILE_FORWARD, s->length * group - tile->start);
		query rows[TILE_FORWARD];
		for (int i = 0; i < n; i++) {
			int64_t at = (tile->start + i) / group, h = head * group + (tile->start + i) % group, t = s->first + at;
			rows[i] = (query){s->base + at, a->qkv + t * width + h * dim, a->out + (t * a->q_heads + h) * dim,
			                  a->lse + t * a->q_heads + h};
		}
		int64_t first = first_block(rows[0].position, a->window);
		for (int64_t b = first; b * KEYS <= rows[n - 1].position; b++) {
			keys[b] = packed_block(a, head, a->paths[s->path + b].number);
			values[b] = keys[b] + (KEYS * dim >> (a->in_tiles != 0));
		}
		score_form form = {a->scale, a->cap, a->window};
		if (a->in_tiles)
			attend_tiles(rows, n, keys, values, keys[first], dim, form, rest);
		else
			attend(rows, n, keys, values, keys[first], dim, form, 0, rest);
	}
}
