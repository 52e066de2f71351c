// Causal attention with an online softmax over blocks of keys. The bits of a row depend only on its query
// and on the blocks up to its own position, in order; which other rows share its tile does not matter,
// since masked scores add exactly nothing.

// Copies the query of one row, scaled, with zeros up to the padded size.
INLINE void copy_scaled(float *to, const float *q, float scale, int64_t dim)
{
	for (int64_t k = 0; k < padded(dim); k += VL) store(to + k, load_partial(q, k, dim) * scale);
}

// One query row: its position in the sequence, the query or its pairs, and the addresses of its outputs.
typedef struct {
	int64_t position;
	const float *q;
	float *out, *lse;
} query;

// The first block that a query at a position reads.
INLINE int64_t first_block(int64_t position, int64_t window) { return max64(0, position + 1 - window) / KEYS; }

// The scratch space of attend: the softmax state; acc, the sums of values weighted by exponentials, [TILE_FORWARD][padded dim]; for
// products in series queries, [TILE_FORWARD][dim], in the order of tiles left-hand sides of queries and of weights.
typedef struct {
	softmax_state *state;
	float *scaled, *acc;
	char *queries, *weights;
	tile_file file;
} attend_space;

INLINE attend_space attend_layout(float *scratch, int64_t dim)
{
	attend_space w = {.state = (softmax_state *)scratch, .acc = scratch + SOFTMAX_FLOATS};
	w.scaled = w.acc + TILE_FORWARD * padded(dim);
	w.queries = (char *)w.scaled;
	w.weights = w.queries + TILE_FORWARD / TILE * left_tile_bytes(dim, 1);
	return w;
}

// How scores are scaled and capped, and how many keys a query reads. If scale is 0, queries are pairs, already scaled and rounded.
typedef struct {
	float scale, cap;
	int64_t window;
} score_form;

// Packs queries, scaled, in the form in which they are multiplied, and clears the sums of values.
INLINE void pack_queries(const int tiled, attend_space *w, const query *rows, int n, float scale, int64_t dim)
{
	int64_t wide = padded(dim);
	for (int i = 0; i < n; i++)
		if (tiled && scale == 0)
			copy_left_row(w->queries, i, rows[i].q, dim);
		else if (tiled)
			pack_left_row(1, w->queries, i, rows[i].q, scale, dim);
		else
			for (int64_t k = 0; k < dim; k += VL) store_partial(w->scaled + i * dim, k, dim, load_partial(rows[i].q, k, dim) * scale);
	memset(w->acc, 0, 4 * n * wide);
}

// Prefetches a block for few queries, which are bound by memory.
INLINE void prefetch_block(const char *p, int64_t bytes, int n)
{
#ifdef TILES_NATIVE
	for (int64_t i = 0; n <= TILE && i < bytes; i += 64) __builtin_prefetch(p + i);
#else
	(void)p, (void)bytes, (void)n;
#endif
}

INLINE tile_factors factors_of_scores(const attend_space *w, const float *keys, int64_t dim)
{
	return (tile_factors){.sums = w->state->score[0], .row = 4 * KEYS, .left = w->queries, .below = left_tile_bytes(dim, 1),
	                      .right = (const char *)keys, .right_row = 4 * KEYS};
}

// The scores of n queries with a block of keys. `prefetch` is what is read next.
INLINE void score_block(const int tiled, attend_space *w, softmax_state *s, int n, const float *keys, const float *prefetch,
                        int64_t dim, int pairs)
{
	if (!tiled) {
		product((small_product){.out = s->score[0], .out_stride = KEYS, .a = w->scaled, .a_stride = dim,
		                        .b = keys, .b_stride = KEYS, .depth = dim, .cols = KEYS, .fresh = 1, .pairs = pairs,
		                        .prefetch = prefetch}, n, 0);
		return;
	}
	prefetch_block((const char *)prefetch, 2 * KEYS * padded(dim), n);
	tile_scores(&w->file, n, factors_of_scores(w, keys, dim), tile_steps(dim));
}

// Adds the block's values, weighted by the exponentials of their scores, to the sums. The first valid_rows values exist.
INLINE void accumulate_values(const int tiled, attend_space *w, softmax_state *s, int n, const float *values, int64_t valid_rows,
                       const float *prefetch, int64_t dim, int pairs)
{
	int64_t wide = padded(dim);
	if (!tiled) {
		product((small_product){.out = w->acc, .out_stride = wide, .a = s->score[0], .a_stride = KEYS, .b = values, .b_stride = wide,
		                        .depth = valid_rows, .cols = wide, .pairs = pairs, .prefetch = prefetch}, n, 0);
		return;
	}
	prefetch_block((const char *)prefetch, 2 * KEYS * dim, n);
	tile_value_sums(&w->file, n, (tile_factors){.sums = w->acc, .row = 4 * wide, .left = w->weights, .below = TILE_BYTES,
	                                       .right = (const char *)values, .right_row = 4 * wide}, wide);
}

// In the order of tiles, for more than 16 rows: turns scores into exponentials, and meanwhile computes the scores of the next block, so
// that the exponentials hide the latency of its keys.
INLINE void exponentials_and_scores(attend_space *w, int n, const float *next, int64_t dim)
{
	const int64_t steps = tile_steps(dim);
	tile_factors t = factors_of_scores(w, next, dim);
	begin_rows(&w->file, n);
	UNROLL for (int c = 0; c < 4; c++) tile_zero(&w->file, SUMS_00 + c);
	for (int64_t s = 0; s < steps; s++) {
		add_scores(&w->file, &t, s);
		for (int i = s * n / steps; i < (s + 1) * n / steps; i++) exponentials(1, w->state, i, w->weights);
	}
	store_both_sums(&w->file, 1, t.sums, t.row);
}

// Whether to compute the scores of the next block together with the exponentials of this one: for more queries than one tile of rows,
// unless heads are so narrow that the keys arrive in time anyway; then it is slower.
enum { NARROW_HEAD = 64 };
INLINE int goes_ahead(const int tiled, int n, int64_t dim) { return tiled && n > TILE && dim > NARROW_HEAD; }

// Updates the maxima and sums of n rows for block b of keys, and turns scores into exponentials.
INLINE void softmax_block(const int tiled, attend_space *w, softmax_state *s, const query *rows, int n, int64_t b, score_form form,
                          const float *next, int64_t dim)
{
	int64_t first = rows[n - 1].position - b * KEYS + 1 - form.window; // the first key that all rows read
	if (form.cap != 0 || first > 0 || rows[0].position < (b + 1) * KEYS - 1)
		for (int i = 0; i < n; i++) {
			int64_t limit = rows[i].position - b * KEYS;
			mask_scores(s, i, limit + 1 - form.window, limit, form.cap);
		}
	for (int i = 0; i < n; i += VL) update_max(s, i);
	rescale_sums(s, n, w->acc, padded(dim));
	if (next && goes_ahead(tiled, n, dim))
		exponentials_and_scores(w, n, next, dim);
	else
		for (int i = 0; i < n; i++) exponentials(tiled, s, i, w->weights);
}

// Blocks of keys and values: keys[b] is block b transposed, [dim][KEYS], values[b] is [KEYS][padded dim], both in pairs or
// not. For prefetches: next are the keys that are likely to be read after the last block, and next_tile_distance is that from a query to
// that of the next tile, in series; 0: unknown.
typedef struct {
	float *const *keys, *const *values;
	const float *next;
	int64_t next_tile_distance, dim;
	int pairs;
	int stream; // results are written around the caches
} key_blocks;

// Writes the results: the sums of values divided by the sums of exponentials.
INLINE void write_rows(const softmax_state *s, const query *rows, int n, const float *acc, const key_blocks *k)
{
	for (int i = 0; i < n; i += VL) {
		vf row[VL];
		UNROLL for (int j = 0; j < VL; j++)
		{
			vf half[LANE_VECTORS];
			UNROLL for (int v = 0; v < LANE_VECTORS; v++) half[v] = load(s->sum[i + j] + v * VL);
			UNROLL for (int stage = 1; stage < LANE_VECTORS; stage *= 2)
				UNROLL for (int v = 0; v < LANE_VECTORS / 2 / stage; v++) half[v] += half[v + LANE_VECTORS / 2 / stage];
			row[j] = half[0];
		}
		vf sum = fold(row, 1), inverse = 1 / sum;
		for (int j = 0; j < VL && i + j < n; j++) {
			const query *r = rows + i + j;
			*r->lse = (float)(s->max[i + j] + log1(sum[j]));
			put_row(r->out, acc + (i + j) * padded(k->dim), inverse[j], k->dim, k->stream);
		}
	}
}

// Prefetches the queries of the next tile, one part of `parts`: rows are pages apart, too far for the hardware's prefetchers.
INLINE void prefetch_rows(const query *rows, int n, const key_blocks *blocks, int64_t part, int64_t parts)
{
	if (!blocks->next_tile_distance)
		return;
	for (int64_t i = part * n / parts; i < (part + 1) * n / parts; i++)
		for (int64_t k = 0; k < blocks->dim; k += 16) __builtin_prefetch(rows[i].q + blocks->next_tile_distance + k, 0, 2);
}

// Initialises the state of queries that have read no block yet.
INLINE void begin_queries(const int tiled, attend_space *w, const query *rows, int n, float scale, int64_t dim)
{
	for (int i = 0; i < TILE_FORWARD; i += VL) store(w->state->max + i, splat(-__builtin_inff()));
	pack_queries(tiled, w, rows, n, scale, dim);
	memset(w->state->sum, 0, sizeof w->state->sum);
}

// Processes blocks [from, end). The last of the queries reads the most keys.
INLINE void read_blocks(const int tiled, attend_space *w, const query *rows, int n, int64_t from, int64_t end, const key_blocks *k,
                        score_form form)
{
	int64_t dim = k->dim, last = rows[n - 1].position;
	for (int64_t b = from; b < end; b++) {
		if (!tiled)
			prefetch_rows(rows, n, k, 2 * (b - from), 2 * (end - from));
		if (b == from || !goes_ahead(tiled, n, dim))
			score_block(tiled, w, w->state, n, k->keys[b], k->values[b], dim, k->pairs);
		softmax_block(tiled, w, w->state, rows, n, b, form, b + 1 < end ? k->keys[b + 1] : NULL, dim);
		if (!tiled)
			prefetch_rows(rows, n, k, 2 * (b - from) + 1, 2 * (end - from));
		accumulate_values(tiled, w, w->state, n, k->values[b], min64(KEYS, last + 1 - b * KEYS), b + 1 < end ? k->keys[b + 1] : k->next, dim,
		           k->pairs);
	}
}

// Attention of up to TILE_FORWARD query rows of one sequence and key-value head; all blocks that a query reads must be
// given.
INLINE void attend_in(const int tiled, const query *rows, int n, const key_blocks *k, score_form form, float *scratch)
{
	attend_space w = attend_layout(scratch, k->dim);
	begin_queries(tiled, &w, rows, n, form.scale, k->dim);
	read_blocks(tiled, &w, rows, n, first_block(rows[0].position, form.window), rows[n - 1].position / KEYS + 1, k, form);
	write_rows(w.state, rows, n, w.acc, k);
}

static void attend(const query *rows, int n, const key_blocks *k, score_form form, float *scratch)
{
	attend_in(0, rows, n, k, form, scratch);
}

INLINE float *cache_aligned(float *scratch) { return (float *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63); }

// The same with products in the order of tiles. Keys and values are in pairs of bf16, and queries and weights are rounded to
// bf16.
static void attend_tiles(const query *rows, int n, const key_blocks *k, score_form form, float *scratch)
{
	uint64_t before = flush_subnormals();
	tile_begin();
	attend_in(1, rows, n, k, form, cache_aligned(scratch));
	tile_end();
	restore_subnormals(before);
}

static void attention(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_attention *a = args;
	int64_t dim = a->dim, group = a->q_heads / a->kv_heads, in_row = head_in_row(a);
	float **keys = scratch, **values = keys + a->longest, *rest = (float *)(values + a->longest);
	for (int64_t task = from; task < to; task++) {
		// Long tiles first: in series with all heads, because what is prefetched is adjacent; in the order of tiles head by head, so that
		// the head's keys stay in the second-level cache.
		int64_t number = a->in_tiles ? task % a->tile_count : task / a->kv_heads, head = a->in_tiles ? task / a->tile_count : task % a->kv_heads;
		const grpo_tile *tile = a->tiles + a->tile_count - 1 - number;
		const grpo_span *s = a->spans + tile->span;
		int n = min64(TILE_FORWARD, s->length * group - tile->start);
		query rows[TILE_FORWARD];
		for (int i = 0; i < n; i++) {
			int64_t at = (tile->start + i) / group, h = head * group + (tile->start + i) % group, t = s->first + at;
			rows[i] = (query){s->base + at, a->qkv + t * a->row + h * in_row, a->out + (t * a->q_heads + h) * dim,
			                  a->lse + t * a->q_heads + h};
		}
		int64_t first = first_block(rows[0].position, a->window);
		for (int64_t b = first; b * KEYS <= rows[n - 1].position; b++) {
			keys[b] = packed_block(a, head, a->paths[s->path + b].number);
			values[b] = keys[b] + (KEYS * dim >> (a->in_tiles != 0));
		}
		int64_t next_tile_distance = head + 1 < a->kv_heads ? group * dim : -(TILE_FORWARD / group * a->row + head * group * dim);
		key_blocks blocks = {keys, values, keys[first], next_tile_distance, dim, a->in_tiles, a->stream};
		score_form form = {a->rounded ? 0 : a->scale, a->cap, a->window};
		if (a->in_tiles)
			attend_tiles(rows, n, &blocks, form, rest);
		else
			attend(rows, n, &blocks, form, rest);
	}
	streams_end();
}
