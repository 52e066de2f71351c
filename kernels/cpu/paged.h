// Attention over a paged cache: the same tiles and the same arithmetic as attention.h, on blocks that are
// found through a table instead of being laid out for the occasion.

INLINE float *cached_keys(const grpo_paged *a, int64_t block, int64_t head)
{
	return a->cache.data + block * a->cache.block_floats + head * KEYS * (a->dim + padded(a->dim));
}

// The key and value of one row and head go to their place.
static void paged_write(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_paged_write *a = args;
	int64_t dim = a->dim, wide = padded(dim), width = (a->q_heads + 2 * a->kv_heads) * dim;
	(void)scratch;
	for (int64_t task = from; task < to; task++) {
		int64_t row = task / a->kv_heads, head = task % a->kv_heads;
		const grpo_run *r = a->runs + row;
		int64_t j = r->position % KEYS;
		float *keys = cached_keys(a, r->table[r->position / KEYS], head), *value = keys + KEYS * dim + j * wide;
		const float *k = a->qkv + row * width + (a->q_heads + head) * dim, *v = k + a->kv_heads * dim;
		for (int64_t i = 0; i < dim; i++) keys[i * KEYS + j] = k[i];
		memcpy(value, v, 4 * dim);
		memset(value + dim, 0, 4 * (wide - dim));
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
		for (int64_t b = 0; b * KEYS <= rows[n - 1].position; b++) {
			keys[b] = cached_keys(a, r->table[b], head);
			values[b] = keys[b] + KEYS * a->dim;
		}
		const float *next = values[0] + KEYS * padded(a->dim); // of the next head
		attend(rows, n, keys, values, next, a->dim, rest);
	}
}
