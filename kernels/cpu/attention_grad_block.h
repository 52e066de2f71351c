// What a tile of queries and a block of keys give to each other in the gradient of attention: see attention_grad.h.

// The sides of products that a tile of queries has in the order of tiles. The gradients of keys and values are made transposed there:
// so what is made for each block is a right-hand side, whose pairs lie one below the other, and what is made across is it once.
typedef struct {
	char *q_left, *dout_left;     // [TILE_BACKWARD][padded dim]
	char *q_across, *dout_across; // [padded dim][TILE_BACKWARD], transposed
	char *dp_left;                // [TILE_BACKWARD][KEYS]
	float *p_right, *dp_right;    // [TILE_BACKWARD/2][KEYS]
	tile_file file;
} tile_space;

static tile_space tile_layout(float *scratch, int64_t dim)
{
	int64_t queries = TILE_BACKWARD / 2 * padded(dim), scores = TILE_BACKWARD / 2 * KEYS; // of one side, in floats
	tile_space t;
	t.q_left = (char *)scratch;
	t.dout_left = (char *)(scratch + queries);
	t.q_across = (char *)(scratch + 2 * queries);
	t.dout_across = (char *)(scratch + 3 * queries);
	scratch += 4 * queries;
	t.dp_left = (char *)scratch;
	t.p_right = scratch + scores;
	t.dp_right = scratch + 2 * scores;
	return t;
}

// What a tile of queries needs, by row, and what the keys and values of the spans that the walk is in have got so far.
typedef struct {
	float *q_transposed, *q;   // scaled, [dim][TILE_BACKWARD] and [TILE_BACKWARD][padded dim]
	float *dout_transposed, *dout;
	float *dq;             // [TILE_BACKWARD][padded dim], not scaled
	float *p, *dp;         // [TILE_BACKWARD][KEYS]
	float *lse, *delta;    // of a row: log Σ exp, and dout·out
	int64_t *position;
	float *dk, *dv;        // [slots][KEYS][padded dim], in the order of tiles [slots][padded dim][KEYS]
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

// The key numbers of a block that a query reads.
typedef struct {
	int64_t first, limit;
} key_range;

INLINE key_range keys_read(const grad_space *g, int i, const grpo_attention_grad *a, int64_t b)
{
	int64_t limit = g->position[i] - b * KEYS;
	return (key_range){limit + 1 - a->window, limit};
}

// What a score makes of itself and of the gradient of its probability: the probability, and the gradient of the score.
typedef struct {
	vf share, slope;
} score_grad;

INLINE score_grad softmax_grad(vf score, vf dp, float lse, float delta, float cap)
{
	vf share, slope = dp - delta;
	if (cap != 0) {
		vf bent = vtanh(score / cap);
		share = vexp(fused(bent, splat(cap), splat(-lse)));
		slope = slope * fused(-bent, bent, splat(1));
	} else {
		share = vexp(score - lse);
	}
	return (score_grad){share, slope};
}

// The same for row i of a tile, of keys from number v on, where some are masked or not.
INLINE score_grad masked_grad(const int masked, const grad_space *g, int i, int v, key_range r, float cap)
{
	score_grad x = softmax_grad(load(g->p + i * KEYS + v), load(g->dp + i * KEYS + v), g->lse[i], g->delta[i], cap);
	if (masked && r.first > 0)
		x.share = mask_before(x.share, v, r.first, splat(0));
	if (masked) {
		x.share = mask_after(x.share, v, r.limit, splat(0));
		x.slope = mask_after(x.slope, v, r.limit, splat(0));
	}
	x.slope = x.share * x.slope;
	return x;
}

// What n queries give to every block, from rows [n][padded dim].
static void pack_tile_queries(grad_space *g, int n, int64_t dim)
{
	int64_t wide = padded(dim);
	for (int i = 0; i < n; i++) {
		pack_left_row(g->tiles.q_left, i, g->q + i * wide, 1, dim);
		pack_left_row(g->tiles.dout_left, i, g->dout + i * wide, 1, dim);
	}
	pack_across(g->tiles.q_across, g->q, n, wide);
	pack_across(g->tiles.dout_across, g->dout, n, wide);
	int64_t pairs = (n + 1) / 2, rest = tile_steps(n) * TILE - pairs;
	memset(g->tiles.p_right + pairs * KEYS, 0, 4 * rest * KEYS);
	memset(g->tiles.dp_right + pairs * KEYS, 0, 4 * rest * KEYS);
}

// Probabilities and the gradients of scores of queries i and i+1 in the form in which they are multiplied.
INLINE void pack_grads(const int masked, grad_space *g, int i, int n, const grpo_attention_grad *a, int64_t b)
{
	vf p[2][KEYS / VL], dp[2][KEYS / VL];
	UNROLL for (int j = 0; j < 2; j++)
	{
		key_range r = keys_read(g, i + j, a, b);
		int reads = i + j < n && (!masked || (r.limit >= 0 && r.first < KEYS));
		UNROLL for (int v = 0; v < KEYS / VL; v++)
		{
			score_grad x = {splat(0), splat(0)};
			if (reads)
				x = masked_grad(masked, g, i + j, v * VL, r, a->cap);
			p[j][v] = x.share;
			dp[j][v] = x.slope;
		}
		put_pairs(g->tiles.dp_left + 4 * TILE * (i + j), dp[j]);
	}
	UNROLL for (int v = 0; v < KEYS / VL; v++)
	{
		store(g->tiles.p_right + i / 2 * KEYS + v * VL, (vf)pairs_across(p[0][v], p[1][v]));
		store(g->tiles.dp_right + i / 2 * KEYS + v * VL, (vf)pairs_across(dp[0][v], dp[1][v]));
	}
}

// The same as grad_block below, in the order of tiles.
static void grad_block_tiles(grad_space *g, int n, const grpo_attention_grad *a, int64_t head, grpo_block at, int64_t b)
{
	int64_t dim = a->dim, wide = padded(dim), half = KEYS * dim / 2, padded_half = KEYS * wide / 2, left = left_tile_bytes(dim, 1);
	int64_t across = left_tile_bytes(TILE_BACKWARD, 1);
	const float *keys_transposed = packed_block(a, head, at.number), *values_transposed = keys_transposed + half + padded_half;
	const float *keys = values_transposed + half;
	float *dk = g->dk + at.slot * KEYS * wide, *dv = g->dv + at.slot * KEYS * wide;
	tile_space *t = &g->tiles;
	for (int i = 0; i < n; i += 2 * TILE) {
		tile_factors f = {.sums = g->p + i * KEYS, .row = 4 * KEYS, .left = t->q_left + i / TILE * left, .below = left,
		                  .right = (const char *)keys_transposed, .right_row = 4 * KEYS};
		tile_scores(&t->file, n - i, f, tile_steps(dim));
		f.sums = g->dp + i * KEYS;
		f.left = t->dout_left + i / TILE * left;
		f.right = (const char *)values_transposed;
		tile_scores(&t->file, n - i, f, tile_steps(dim));
	}
	if (g->position[0] < (b + 1) * KEYS - 1 || g->position[n - 1] - b * KEYS + 1 > a->window)
		for (int i = 0; i < n; i += 2) pack_grads(1, g, i, n, a, b);
	else
		for (int i = 0; i < n; i += 2) pack_grads(0, g, i, n, a, b);
	for (int i = 0; i < n; i += 2 * TILE)
		tile_means(&t->file, n - i, (tile_factors){.sums = g->dq + i * wide, .row = 4 * wide, .left = t->dp_left + i / TILE * TILE_BYTES,
		                                           .below = TILE_BYTES, .right = (const char *)keys, .right_row = 4 * wide}, wide);
	for (int64_t k = 0; k < wide; k += 2 * TILE) {
		tile_factors f = {.sums = dv + k * KEYS, .row = 4 * KEYS, .left = t->dout_across + k / TILE * across, .below = across,
		                  .right = (const char *)t->p_right, .right_row = 4 * KEYS};
		tile_sums(&t->file, f, tile_steps(n));
		f.sums = dk + k * KEYS;
		f.left = t->q_across + k / TILE * across;
		f.right = (const char *)t->dp_right;
		tile_sums(&t->file, f, tile_steps(n));
	}
}

// The same for all queries of a tile and block b of the keys, in place.
INLINE void softmax_grads(grad_space *g, int n, const grpo_attention_grad *a, int64_t b)
{
	for (int i = 0; i < n; i++) {
		key_range r = keys_read(g, i, a, b);
		for (int v = 0; v < KEYS; v += VL) {
			score_grad x = {splat(0), splat(0)};
			if (r.limit >= 0 && r.first < KEYS)
				x = masked_grad(1, g, i, v, r, a->cap);
			store(g->p + i * KEYS + v, x.share);
			store(g->dp + i * KEYS + v, x.slope);
		}
	}
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
