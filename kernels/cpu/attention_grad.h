// The gradient of attention. One task has all queries of a tree and key-value head, span by span in preorder, in tiles: the
// gradient of a query sums over keys, that of a key or value over queries position by position and head by head, each in
// ascending order, and nobody else adds to them. Blocks of keys have their sums once, in the span that they belong to; a
// block that begins with rows of an earlier span hands their sums on when the walk leaves it.

// What a tile of queries needs, by row, and what the keys and values of the spans that the walk is in have got so far.
typedef struct {
	float *q_transposed, *q;   // scaled, [dim][TILE_BACKWARD] and [TILE_BACKWARD][padded dim]
	float *dout_transposed, *dout;
	float *dq;             // [TILE_BACKWARD][padded dim], not scaled
	float *p, *dp;         // [TILE_BACKWARD][KEYS]
	float *lse, *delta;    // of a row: log Σ exp, and dout·out
	int64_t *position;
	float *dk, *dv;        // [slots · KEYS][padded dim]
	tile_space tiles;      // where that is the order
} grad_space;

static grad_space grad_layout(float *scratch, int64_t dim, int64_t slots, int in_tiles)
{
	enum { R = TILE_BACKWARD };
	int64_t wide = padded(dim);
	grad_space g;
	if (in_tiles) {
		g.tiles = tile_layout(scratch, dim);
		scratch += grpo_tile_space_floats(wide);
	}
	g.position = (int64_t *)scratch;
	g.lse = scratch + 2 * R;
	g.delta = g.lse + R;
	g.p = g.delta + R;
	g.dp = g.p + R * KEYS;
	g.q_transposed = g.dp + R * KEYS;
	g.dout_transposed = g.q_transposed + R * dim;
	g.q = g.dout_transposed + R * dim;
	g.dout = g.q + R * wide;
	g.dq = g.dout + R * wide;
	g.dk = g.dq + R * wide;
	g.dv = g.dk + slots * KEYS * wide;
	return g;
}

// Query i of a tile, of batch row t and head h.
INLINE void gather_query(const grpo_attention_grad *a, grad_space *g, int i, int64_t t, int64_t h, float scale)
{
	int64_t dim = a->dim, wide = padded(dim), width = (a->q_heads + 2 * a->kv_heads) * dim;
	int64_t at = (t * a->q_heads + h) * dim;
	const float *q = a->qkv + t * width + h * dim, *dout = a->dout + at;
	g->lse[i] = a->lse[t * a->q_heads + h];
	g->delta[i] = row_dot(dout, a->out + at, dim);
	copy_scaled(g->q + i * wide, q, scale, dim);
	copy_scaled(g->dout + i * wide, dout, 1, dim);
}

// Scores become probabilities, and the gradients of probabilities those of scores.
INLINE void softmax_grad(grad_space *g, int i, int64_t first, int64_t limit, float cap)
{
	float *p = g->p + i * KEYS, *dp = g->dp + i * KEYS;
	if (limit < 0 || first >= KEYS) {
		memset(p, 0, 4 * KEYS);
		memset(dp, 0, 4 * KEYS);
		return;
	}
	UNROLL for (int v = 0; v < KEYS; v += VL)
	{
		vf score = load(p + v), share, slope = load(dp + v) - g->delta[i];
		if (cap != 0) {
			vf bent = vtanh(score / cap);
			share = vexp(fused(bent, splat(cap), splat(-g->lse[i])));
			slope = slope * fused(-bent, bent, splat(1));
		} else {
			share = vexp(score - g->lse[i]);
		}
		if (first > 0)
			share = mask_before(share, v, first, splat(0));
		share = mask_after(share, v, limit, splat(0));
		slope = mask_after(slope, v, limit, splat(0));
		store(p + v, share);
		store(dp + v, share * slope);
	}
}

// The same for all queries of a tile and block b of the keys.
INLINE void softmax_grads(grad_space *g, int n, const grpo_attention_grad *a, int64_t b)
{
	for (int i = 0; i < n; i++) {
		int64_t limit = g->position[i] - b * KEYS;
		softmax_grad(g, i, limit + 1 - a->window, limit, a->cap);
	}
}

// The same as grad_block below, in the order of tiles.
static void grad_block_tiles(grad_space *g, int n, const grpo_attention_grad *a, int64_t head, grpo_block at, int64_t b)
{
	int64_t dim = a->dim, wide = padded(dim), half = KEYS * dim / 2, padded_half = KEYS * wide / 2;
	const float *keys_transposed = packed_block(a, head, at.number), *values_transposed = keys_transposed + half + padded_half;
	const float *keys = values_transposed + half;
	tile_space *t = &g->tiles;
	tile_product(t, g->p, KEYS, n, t->q_left, dim, dim, keys_transposed, 1);
	tile_product(t, g->dp, KEYS, n, t->dout_left, dim, dim, values_transposed, 1);
	softmax_grads(g, n, a, b);
	pack_left(t->dp_left, g->dp, KEYS, n, KEYS);
	tile_product(t, g->dq, wide, n, t->dp_left, KEYS, KEYS, keys, 0);
	pack_across(t, t->p_across, g->p, n);
	tile_product(t, g->dv + at.slot * KEYS * wide, wide, KEYS, t->p_across, n, TILE_BACKWARD, t->dout_right, 0);
	pack_across(t, t->dp_across, g->dp, n);
	tile_product(t, g->dk + at.slot * KEYS * wide, wide, KEYS, t->dp_across, n, TILE_BACKWARD, t->q_right, 0);
}

// All that a tile of n queries and one block of keys, number b of their path, give to each other.
static void grad_block(grad_space *g, int n, int64_t depth, const grpo_attention_grad *a, int64_t head, grpo_block at, int64_t b)
{
	enum { R = TILE_BACKWARD };
	int64_t dim = a->dim, wide = padded(dim);
	float *dk = g->dk + at.slot * KEYS * wide, *dv = g->dv + at.slot * KEYS * wide;
	const float *keys_transposed = packed_block(a, head, at.number), *values = keys_transposed + KEYS * dim;
	const float *values_transposed = values + KEYS * wide, *keys = values_transposed + KEYS * dim;
	product((small_product){.out = g->p, .out_stride = KEYS, .a = g->q_transposed, .a_step = R, .b = keys_transposed,
	                        .b_stride = KEYS, .depth = dim, .cols = KEYS, .fresh = 1}, n, 1);
	product((small_product){.out = g->dp, .out_stride = KEYS, .a = g->dout_transposed, .a_step = R, .b = values_transposed,
	                        .b_stride = KEYS, .depth = dim, .cols = KEYS, .fresh = 1}, n, 1);
	softmax_grads(g, n, a, b);
	product((small_product){.out = g->dq, .out_stride = wide, .a = g->dp, .b = keys, .b_stride = wide,
	                        .depth = depth, .cols = wide}, n, 0);
	product((small_product){.out = dv, .out_stride = wide, .a = g->p, .a_step = KEYS, .b = g->dout, .b_stride = wide,
	                        .depth = n, .cols = wide}, KEYS, 1);
	product((small_product){.out = dk, .out_stride = wide, .a = g->dp, .a_step = KEYS, .b = g->q, .b_stride = wide,
	                        .depth = n, .cols = wide}, KEYS, 1);
}

// The queries of a span read all keys of its path.
static void enter_span(const grpo_attention_grad *a, const grpo_span *s, int64_t head, grad_space *g)
{
	int64_t group = a->q_heads / a->kv_heads, width = (a->q_heads + 2 * a->kv_heads) * a->dim;
	int64_t dim = a->dim, wide = padded(dim), own = s->blocks * KEYS * wide;
	float scale = a->scale;
	memset(g->dk + s->slot * KEYS * wide, 0, 4 * own);
	memset(g->dv + s->slot * KEYS * wide, 0, 4 * own);
	for (int64_t start = 0; start < s->length * group; start += TILE_BACKWARD) {
		int n = min64(TILE_BACKWARD, s->length * group - start);
		for (int i = 0; i < n; i++) {
			int64_t at = (start + i) / group;
			g->position[i] = s->base + at;
			gather_query(a, g, i, s->first + at, head * group + (start + i) % group, scale);
		}
		if (a->in_tiles) {
			pack_tile_queries(&g->tiles, g->q, g->dout, n, dim);
		} else {
			transpose_rows(g->q_transposed, TILE_BACKWARD, g->q, wide, n, dim);
			transpose_rows(g->dout_transposed, TILE_BACKWARD, g->dout, wide, n, dim);
		}
		memset(g->dq, 0, 4 * n * wide);
		int64_t last = g->position[n - 1];
		for (int64_t b = first_block(g->position[0], a->window); b * KEYS <= last; b++) {
			grpo_block at = a->paths[s->path + b];
			if (a->in_tiles)
				grad_block_tiles(g, n, a, head, at, b);
			else
				grad_block(g, n, min64(KEYS, last + 1 - b * KEYS), a, head, at, b);
		}
		for (int i = 0; i < n; i++) {
			float *dq = a->dqkv + (s->first + (start + i) / group) * width + (head * group + (start + i) % group) * dim;
			for (int64_t k = 0; k < dim; k += VL) put(dq, k, dim, take(g->dq + i * wide, k, dim) * scale);
		}
	}
}

// Nobody reads a span's keys any more: its rows have their sums, and those of earlier rows in its first block go on to
// where they came from.
static void leave_span(const grpo_attention_grad *a, const grpo_span *s, int64_t head, grad_space *g)
{
	int64_t dim = a->dim, wide = padded(dim), width = (a->q_heads + 2 * a->kv_heads) * dim, before = s->base % KEYS;
	float *dk = g->dk + s->slot * KEYS * wide, *dv = g->dv + s->slot * KEYS * wide;
	if (before > 0 && s->blocks > 0) {
		int64_t to = a->paths[a->spans[s->parent].path + s->base / KEYS].slot * KEYS * wide;
		for (int64_t i = 0; i < before * wide; i += VL) {
			store(g->dk + to + i, load(g->dk + to + i) + load(dk + i));
			store(g->dv + to + i, load(g->dv + to + i) + load(dv + i));
		}
	}
	for (int64_t j = 0; j < s->length; j++) {
		float *row = a->dqkv + (s->first + j) * width + (a->q_heads + head) * dim;
		memcpy(row, dk + (before + j) * wide, 4 * dim);
		memcpy(row + a->kv_heads * dim, dv + (before + j) * wide, 4 * dim);
	}
}

// Walks the tree that begins with span root.
static void grad_tree(const grpo_attention_grad *a, int64_t root, int64_t head, float *scratch)
{
	grad_space g = grad_layout(scratch, a->dim, a->slots, a->in_tiles);
	int64_t in = -1; // the span that the walk is in, with all that it goes on from
	for (int64_t i = root; i < a->count && (i == root || a->spans[i].parent >= root); i++) {
		const grpo_span *s = a->spans + i;
		if (s->length == 0)
			continue;
		for (; in != s->parent; in = a->spans[in].parent) leave_span(a, a->spans + in, head, &g);
		enter_span(a, s, head, &g);
		in = i;
	}
	for (; in >= 0; in = a->spans[in].parent) leave_span(a, a->spans + in, head, &g);
}

static void attention_grad(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_attention_grad *a = args;
	uint64_t before = 0;
	if (a->in_tiles) {
		before = flush_subnormals();
		tile_begin();
	}
	for (int64_t task = from; task < to; task++)
		grad_tree(a, a->trees[task / a->kv_heads], task % a->kv_heads, scratch);
	if (a->in_tiles) {
		tile_end();
		restore_subnormals(before);
	}
}
