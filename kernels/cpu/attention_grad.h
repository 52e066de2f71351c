// The gradient of attention. One task has all queries of a sequence and key-value head, in tiles: the
// gradient of a query sums over keys, that of a key or value over queries position by position and head
// by head, each in ascending order, and nobody else adds to them.

// What a tile of queries needs, by row, and what the sequence's keys and values have got so far.
typedef struct {
	float *q_transposed, *q;   // scaled, [dim][TILE_BACKWARD] and [TILE_BACKWARD][padded dim]
	float *dout_transposed, *dout;
	float *dq;             // [TILE_BACKWARD][padded dim], not scaled
	float *p, *dp;         // [TILE_BACKWARD][KEYS]
	float *lse, *delta;    // of a row: log Σ exp, and dout·out
	int64_t *position;
	float *dk, *dv;        // [blocks of the sequence · KEYS][padded dim]
} grad_space;

static grad_space grad_layout(float *scratch, int64_t dim, int64_t blocks)
{
	enum { R = TILE_BACKWARD };
	int64_t wide = padded(dim);
	grad_space g;
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
	g.dv = g.dk + blocks * KEYS * wide;
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
INLINE void softmax_grad(grad_space *g, int i, int64_t limit)
{
	float *p = g->p + i * KEYS, *dp = g->dp + i * KEYS;
	if (limit < 0) {
		memset(p, 0, 4 * KEYS);
		memset(dp, 0, 4 * KEYS);
		return;
	}
	UNROLL for (int v = 0; v < KEYS; v += VL)
	{
		vf share = vexp(load(p + v) - g->lse[i]), slope = load(dp + v) - g->delta[i];
		share = mask_after(share, v, limit, splat(0));
		slope = mask_after(slope, v, limit, splat(0));
		store(p + v, share);
		store(dp + v, share * slope);
	}
}

// All that a tile of n queries and one block of keys give to each other.
static void grad_block(grad_space *g, int n, int64_t depth, const grpo_attention_grad *a, int64_t at, int64_t block)
{
	enum { R = TILE_BACKWARD };
	int64_t dim = a->dim, wide = padded(dim);
	float *dk = g->dk + block * KEYS * wide, *dv = g->dv + block * KEYS * wide;
	product((small_product){.out = g->p, .out_stride = KEYS, .a = g->q_transposed, .a_step = R, .b = a->keys_transposed[at],
	                        .b_stride = KEYS, .depth = dim, .cols = KEYS, .fresh = 1}, n, 1);
	product((small_product){.out = g->dp, .out_stride = KEYS, .a = g->dout_transposed, .a_step = R, .b = a->values_transposed[at],
	                        .b_stride = KEYS, .depth = dim, .cols = KEYS, .fresh = 1}, n, 1);
	for (int i = 0; i < n; i++) softmax_grad(g, i, g->position[i] - block * KEYS);
	product((small_product){.out = g->dq, .out_stride = wide, .a = g->dp, .b = a->keys[at], .b_stride = wide,
	                        .depth = depth, .cols = wide}, n, 0);
	product((small_product){.out = dv, .out_stride = wide, .a = g->p, .a_step = KEYS, .b = g->dout, .b_stride = wide,
	                        .depth = n, .cols = wide}, KEYS, 1);
	product((small_product){.out = dk, .out_stride = wide, .a = g->dp, .a_step = KEYS, .b = g->q, .b_stride = wide,
	                        .depth = n, .cols = wide}, KEYS, 1);
}

static void grad_sequence(const grpo_attention_grad *a, const grpo_span *s, int64_t head, float *scratch)
{
	int64_t group = a->q_heads / a->kv_heads, width = (a->q_heads + 2 * a->kv_heads) * a->dim;
	int64_t dim = a->dim, wide = padded(dim), blocks = (s->length + KEYS - 1) / KEYS;
	float scale = score_scale(dim);
	grad_space g = grad_layout(scratch, dim, blocks);
	memset(g.dk, 0, 4 * 2 * blocks * KEYS * wide);
	for (int64_t start = 0; start < s->length * group; start += TILE_BACKWARD) {
		int n = min64(TILE_BACKWARD, s->length * group - start);
		for (int i = 0; i < n; i++) {
			g.position[i] = (start + i) / group;
			gather_query(a, &g, i, s->first + g.position[i], head * group + (start + i) % group, scale);
		}
		transpose_rows(g.q_transposed, TILE_BACKWARD, g.q, wide, n, dim);
		transpose_rows(g.dout_transposed, TILE_BACKWARD, g.dout, wide, n, dim);
		memset(g.dq, 0, 4 * n * wide);
		int64_t last = g.position[n - 1];
		for (int64_t b = 0; b * KEYS <= last; b++)
			grad_block(&g, n, min64(KEYS, last + 1 - b * KEYS), a, head * a->blocks + s->block + b, b);
		for (int i = 0; i < n; i++) {
			float *dq = a->dqkv + (s->first + g.position[i]) * width + (head * group + (start + i) % group) * dim;
			for (int64_t k = 0; k < dim; k += VL) put(dq, k, dim, take(g.dq + i * wide, k, dim) * scale);
		}
	}
	for (int64_t j = 0; j < s->length; j++) {
		float *dk = a->dqkv + (s->first + j) * width + (a->q_heads + head) * dim;
		memcpy(dk, g.dk + j * wide, 4 * dim);
		memcpy(dk + a->kv_heads * dim, g.dv + j * wide, 4 * dim);
	}
}

static void attention_grad(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_attention_grad *a = args;
	for (int64_t task = from; task < to; task++)
		grad_sequence(a, a->spans + task / a->kv_heads, task % a->kv_heads, scratch);
}
