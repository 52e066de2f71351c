// Attention over a paged cache: the same tiles and the same arithmetic as attention.h, on blocks that are
// found through a table instead of being laid out for the occasion.

// The keys of a head in a block, and the values behind them.
INLINE float *cached_keys(const grpo_paged *a, int64_t block, int64_t head)
{
	return a->cache.data + block * a->cache.block_floats + (head * KEYS * (a->dim + padded(a->dim)) >> a->cache.pairs);
}

INLINE float *cached_values(const grpo_paged *a, float *keys) { return keys + (KEYS * a->dim >> a->cache.pairs); }

// Writes half of pair i. The other half may be another thread's, so nothing else is touched; the first half is the high
// one, whose bytes come last.
INLINE void put_rounded(float *pairs, int64_t i, int second, float x)
{
	uint32_t u;
	x = rounded1(x);
	memcpy(&u, &x, 4);
	uint16_t half = u >> 16;
	memcpy((char *)(pairs + i) + (second ? 0 : 2), &half, 2);
}

// The key and value of one row and head go to their place.
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
		int32_t none = no_number(a->cache.pairs);
		if (any_lane(no_numbers(v, dim, none))) {
			mend_value(scratch, k, v, dim, none);
			k = scratch;
			v = k + dim;
		}
		if (a->cache.pairs) { // what pads a row of values is zero from the start
			for (int64_t i = 0; i < dim; i++) put_rounded(keys, i / 2 * KEYS + j, i % 2, k[i]);
			for (int64_t i = 0; i < dim; i++) put_rounded(values, j / 2 * wide + i, j % 2, v[i]);
			continue;
		}
		for (int64_t i = 0; i < dim; i++) keys[i * KEYS + j] = k[i];
		memcpy(values + j * wide, v, 4 * dim);
		memset(values + j * wide + dim, 0, 4 * (wide - dim));
	}
}

static void paged_attention(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_paged_attention *a = args;
	int64_t group = a->q_heads / a->kv_heads, width = (a->q_heads + 2 * a->kv_heads) * a->dim;
	float **keys = scratch, **values = keys + a->stride, *rest = (float *)(values + a->stride);
	float lse[TILE_FORWARD];
	for (int64_t task = from; task < to; task++) {
		const grpo_run *r = a->runs + a->count - 1 - task / a->kv_heads; // late positions first
		int64_t head = task % a->kv_heads;
		int n = min64(TILE_FORWARD, r->length * group - r->start);
		query rows[TILE_FORWARD];
		for (int i = 0; i < n; i++) {
			int64_t at = (r->start + i) / group, h = head * group + (r->start + i) % group, t = r->first + at;
			rows[i] = (query){r->position + at, a->qkv + t * width + h * a->dim,
			                  a->out + (t * a->q_heads + h) * a->dim, lse + i};
		}
		int64_t first = first_block(rows[0].position, a->window);
		for (int64_t b = first; b * KEYS <= rows[n - 1].position; b++) {
			keys[b] = cached_keys(a, r->table[b], head);
			values[b] = cached_values(a, keys[b]);
		}
		const float *next = values[first] + (KEYS * padded(a->dim) >> a->cache.pairs); // of the next head
		score_form form = {a->scale, a->cap, a->window};
		if (a->in_tiles)
			attend_tiles(rows, n, keys, values, next, a->dim, form, rest);
		else
			attend(rows, n, keys, values, next, a->dim, form, a->cache.pairs, rest);
	}
}
