// Attention over a paged KV cache: the same tiles and the same arithmetic as attention.h, on blocks that are
// found through a block table instead of being packed for each call.

// The keys of a head in a block, and the values, which follow them.
INLINE float *cached_keys(const grpo_paged *a, int64_t block, int64_t head)
{
	return a->cache.data + block * a->cache.block_floats + (head * KEYS * (a->dim + padded(a->dim)) >> a->cache.pairs);
}

INLINE float *cached_values(const grpo_paged *a, float *keys) { return keys + (KEYS * a->dim >> a->cache.pairs); }

// Writes half of pair i and nothing else, since another thread may be writing the other half. The first number is in the high
// half, whose bytes come last.
INLINE void put_rounded(float *pairs, int64_t i, int second, float x)
{
	uint32_t u;
	x = rounded1(x);
	memcpy(&u, &x, 4);
	uint16_t half = u >> 16;
	memcpy((char *)(pairs + i) + (second ? 0 : 2), &half, 2);
}

// Writes the key and value of a row and head to the cache.
static void paged_write(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_paged_write *a = args;
	int64_t dim = a->dim, wide = padded(dim), width = (a->q_heads + 2 * a->kv_heads) * dim;
	for (int64_t task = from; task < to; task++) {
		int64_t row = task / a->kv_heads, head = task % a->kv_heads;
		const grpo_run *r = a->runs + row;
		int64_t j = r->position % KEYS;
		float *keys = cached_keys(a, r->table[r->position / KEYS], head), *values = cached_values(a, keys);
		const float *k = a->qkv + row * width + (a->q_heads + head) * dim, *v = k + a->kv_heads * dim;
		const number_form form = a->cache.pairs ? AS_ROUNDED : AS_FLOATS;
		if (any_lane(nonfinite_lanes(form, v, dim))) {
			replace_nonfinite(form, scratch, k, v, dim);
			k = scratch;
			v = k + dim;
		}
		if (a->cache.pairs) { // the padding of a row of values is zero from the start
			for (int64_t i = 0; i < dim; i++) put_rounded(keys, i / 2 * KEYS + j, i % 2, k[i]);
			for (int64_t i = 0; i < dim; i++) put_rounded(values, j / 2 * wide + i, j % 2, v[i]);
			continue;
		}
		for (int64_t i = 0; i < dim; i++) keys[i * KEYS + j] = k[i];
		memcpy(values + j * wide, v, 4 * dim);
		memset(values + j * wide + dim, 0, 4 * (wide - dim));
	}
}

// Sets the queries of a tile and key-value head, and returns their number. Logarithms of sums, which nobody reads, are written to log.
static int queries_of(query *rows, const grpo_paged_attention *a, const grpo_run *r, int64_t head, float *log)
{
	int64_t group = a->q_heads / a->kv_heads, width = (a->q_heads + 2 * a->kv_heads) * a->dim;
	int n = min64(TILE_FORWARD, r->length * group - r->start);
	for (int i = 0; i < n; i++) {
		int64_t at = (r->start + i) / group, h = head * group + (r->start + i) % group, t = r->first + at;
		rows[i] = (query){r->position + at, a->qkv + t * width + h * a->dim, a->out + (t * a->q_heads + h) * a->dim, log};
	}
	return n;
}

// Copies the state of queries [first, first+n) out of a tile in which they have read shared blocks together with others.
INLINE void copy_state(attend_space *w, const attend_space *together, int first, int n, int64_t wide)
{
	memcpy(w->state->max, together->state->max + first, 4 * n);
	memcpy(w->state->sum, together->state->sum + first, n * sizeof *w->state->sum);
	memcpy(w->acc, together->acc + first * wide, 4 * n * wide);
}

// Finds blocks [from, end) of a sequence.
INLINE void find_blocks(float **keys, float **values, const grpo_paged_attention *a, const int32_t *table, int64_t from, int64_t end,
                        int64_t head)
{
	for (int64_t b = from; b < end; b++) {
		keys[b] = cached_keys(a, table[b], head);
		values[b] = cached_values(a, keys[b]);
	}
}

// All queries of a bundle read their shared blocks as one tile, since rows do not depend on each other. Then each tile continues alone.
INLINE void attend_bundle(const int tiled, const grpo_paged_attention *a, const grpo_bundle *bundle, int64_t head, float **keys,
                          float *scratch)
{
	float **values = keys + a->stride, log;
	attend_space alone = attend_layout(scratch, a->dim);
	attend_space together = attend_layout(scratch + grpo_attend_floats(a->dim, padded(a->dim)), a->dim);
	score_form form = {a->scale, a->cap, a->window};
	key_blocks k = {.keys = keys, .values = values, .dim = a->dim, .pairs = a->cache.pairs};
	const grpo_run *r = a->runs + bundle->first;
	query rows[TILE_FORWARD];
	if (bundle->shared > 0) {
		int n = 0;
		for (int64_t i = 0; i < bundle->count; i++) n += queries_of(rows + n, a, r + i, head, &log);
		find_blocks(keys, values, a, r->table, 0, bundle->shared, head);
		k.next = cached_keys(a, r->table[bundle->shared], head);
		begin_queries(tiled, &together, rows, n, form.scale, a->dim);
		read_blocks(tiled, &together, rows, n, 0, bundle->shared, &k, form);
	}
	for (int64_t i = 0, done = 0; i < bundle->count; i++, r++) {
		int n = queries_of(rows, a, r, head, &log);
		int64_t from = max64(bundle->shared, first_block(rows[0].position, a->window)), end = rows[n - 1].position / KEYS + 1;
		find_blocks(keys, values, a, r->table, from, end, head);
		k.next = i + 1 < bundle->count ? cached_keys(a, r[1].table[from], head) : values[from] + (KEYS * padded(a->dim) >> k.pairs);
		begin_queries(tiled, &alone, rows, n, form.scale, a->dim);
		if (bundle->shared > 0)
			copy_state(&alone, &together, done, n, padded(a->dim));
		read_blocks(tiled, &alone, rows, n, from, end, &k, form);
		write_rows(alone.state, rows, n, alone.acc, &k);
		done += n;
	}
}

static void attend_bundle_in_series(const grpo_paged_attention *a, const grpo_bundle *b, int64_t head, float **keys, float *scratch)
{
	attend_bundle(0, a, b, head, keys, scratch);
}

static void attend_bundle_in_tiles(const grpo_paged_attention *a, const grpo_bundle *b, int64_t head, float **keys, float *scratch)
{
	uint64_t before = flush_subnormals();
	tile_begin();
	attend_bundle(1, a, b, head, keys, cache_aligned(scratch));
	tile_end();
	restore_subnormals(before);
}

static void paged_attention(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_paged_attention *a = args;
	float **keys = scratch, *rest = (float *)(keys + 2 * a->stride);
	for (int64_t task = from; task < to; task++) {
		const grpo_bundle *b = a->bundles + a->count - 1 - task / a->kv_heads; // late positions first
		if (a->in_tiles)
			attend_bundle_in_tiles(a, b, task % a->kv_heads, keys, rest);
		else
			attend_bundle_in_series(a, b, task % a->kv_heads, keys, rest);
	}
}
