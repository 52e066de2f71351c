// The contributions of a tile of queries and a block of keys to each other's gradients in attention: see attention_grad.h.

// The factors made of queries in the order of tiles. The gradients of keys and values are computed transposed there: then the factor that
// changes with every block is a right-hand side, whose pairs are across rows, and queries need be transposed only once.
typedef struct {
	char *q_left, *dout_left;     // [QUERIES_AT_ONCE][padded dim]
	char *q_across, *dout_across; // [padded dim][QUERIES_AT_ONCE], transposed
	char *dp_left;                // [QUERIES_AT_ONCE][BLOCKS_AT_ONCE · KEYS]
	float *p_right, *dp_right;    // [QUERIES_AT_ONCE/2][KEYS]
	tile_file file;
} tile_space;

// The data of R queries by row, and the sums so far for the keys and values of the spans on the current path of the walk. R is
// TILE_BACKWARD, or in the order of tiles QUERIES_AT_ONCE.
typedef struct {
	float *dk, *dv;        // [slots][KEYS][padded dim], in the order of tiles [slots][padded dim][KEYS]
	float *dq;             // [R][padded dim], not scaled
	float *p, *dp;         // [R][KEYS]
	float *lse, *delta;    // of a row: log Σ exp, and dout·out
	int64_t *position;
	float *q, *dout; // [R][padded dim], queries scaled
	tile_space tiles; // in the order of tiles, instead of q and dout
} grad_space;

INLINE float *take_floats(float **scratch, int64_t count)
{
	float *p = *scratch;
	*scratch += count;
	return p;
}

static grad_space grad_layout(float *scratch, int64_t dim, int64_t slots, int in_tiles)
{
	int64_t wide = padded(dim), rows = in_tiles ? QUERIES_AT_ONCE : TILE_BACKWARD;
	grad_space g;
	g.position = (int64_t *)take_floats(&scratch, 2 * rows);
	g.lse = take_floats(&scratch, rows);
	g.delta = take_floats(&scratch, rows);
	g.p = take_floats(&scratch, rows * KEYS);
	g.dp = take_floats(&scratch, rows * KEYS);
	g.dq = take_floats(&scratch, rows * wide);
	if (in_tiles) {
		tile_space *t = &g.tiles;
		t->q_left = (char *)take_floats(&scratch, rows / 2 * wide);
		t->dout_left = (char *)take_floats(&scratch, rows / 2 * wide);
		t->q_across = (char *)take_floats(&scratch, rows / 2 * wide);
		t->dout_across = (char *)take_floats(&scratch, rows / 2 * wide);
		t->dp_left = (char *)take_floats(&scratch, rows / 2 * BLOCKS_AT_ONCE * KEYS);
		t->p_right = take_floats(&scratch, rows / 2 * KEYS);
		t->dp_right = take_floats(&scratch, rows / 2 * KEYS);
	} else {
		g.q = take_floats(&scratch, rows * wide);
		g.dout = take_floats(&scratch, rows * wide);
	}
	g.dk = take_floats(&scratch, slots * KEYS * wide);
	g.dv = scratch;
	return g;
}

// The keys of a block that a query reads.
typedef struct {
	int64_t first, limit;
} key_range;

INLINE key_range keys_read(const grad_space *g, int i, const grpo_attention_grad *a, int64_t b)
{
	int64_t limit = g->position[i] - b * KEYS;
	return (key_range){limit + 1 - a->window, limit};
}

// Whether some of the queries [from, to) do not read all keys of block b.
INLINE int reads_in_part(const grad_space *g, int from, int to, int64_t b, int64_t window)
{
	return g->position[from] < (b + 1) * KEYS - 1 || g->position[to - 1] - b * KEYS + 1 > window;
}

// The probability of a score, and the gradient of the score (in softmax_grad not yet multiplied by the probability).
typedef struct {
	vf probability, grad;
} score_grad;

INLINE score_grad softmax_grad(vf score, vf dp, float lse, float delta, float cap)
{
	vf probability, grad = dp - delta;
	if (cap != 0) {
		vf capped = vtanh(score / cap);
		probability = vexp(fused(capped, splat(cap), splat(-lse)));
		grad = grad * fused(-capped, capped, splat(1));
	} else {
		probability = vexp(score - lse);
	}
	return (score_grad){probability, grad};
}

// The same for row i of a tile and keys from v on, some of which may be masked.
INLINE score_grad masked_grad(const int masked, const grad_space *g, int i, int v, key_range r, float cap)
{
	score_grad x = softmax_grad(load(g->p + i * KEYS + v), load(g->dp + i * KEYS + v), g->lse[i], g->delta[i], cap);
	if (masked && r.first > 0)
		x.probability = mask_before(x.probability, v, r.first, splat(0));
	if (masked) {
		x.probability = mask_after(x.probability, v, r.limit, splat(0));
		x.grad = mask_after(x.grad, v, r.limit, splat(0));
	}
	x.grad = x.probability * x.grad;
	return x;
}

// Packs probabilities and the gradients of scores of queries i and i+1 in the form in which they are multiplied.
INLINE void pack_grads(const int masked, grad_space *g, int i, int n, const grpo_attention_grad *a, int64_t b, char *dp_left)
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
			p[j][v] = x.probability;
			dp[j][v] = x.grad;
		}
		put_pairs(1, dp_left + (i + j) / TILE * BLOCKS_AT_ONCE * TILE_BYTES + (i + j) % TILE * 4 * TILE, dp[j]);
	}
	UNROLL for (int v = 0; v < KEYS / VL; v++)
	{
		store(g->tiles.p_right + i / 2 * KEYS + v * VL, (vf)computed_across(p[0][v], p[1][v]));
		store(g->tiles.dp_right + i / 2 * KEYS + v * VL, (vf)computed_across(dp[0][v], dp[1][v]));
	}
}

// Adds the gradients of the keys and values in block b of the path of queries [from, to), in the order of tiles, and packs those of the
// scores, from which grad_path_tiles computes the gradients of the queries.
static void grad_block_tiles(grad_space *g, int from, int to, const grpo_attention_grad *a, const float *keys_transposed,
                             const float *values_transposed, int64_t slot, int64_t b, char *dp_left)
{
	int64_t dim = a->dim, wide = padded(dim), left = left_tile_bytes(dim, 1), across = left_tile_bytes(QUERIES_AT_ONCE, 1);
	tile_space *t = &g->tiles;
	for (int i = from; i < to; i += 2 * TILE) {
		tile_factors f = {.sums = g->p + i * KEYS, .row = 4 * KEYS, .left = t->q_left + i / TILE * left, .below = left,
		                  .right = (const char *)keys_transposed, .right_row = 4 * KEYS};
		tile_scores(&t->file, to - i, f, tile_steps(dim));
		f.sums = g->dp + i * KEYS;
		f.left = t->dout_left + i / TILE * left;
		f.right = (const char *)values_transposed;
		tile_scores(&t->file, to - i, f, tile_steps(dim));
	}
	if (reads_in_part(g, from, to, b, a->window))
		for (int i = from; i < to; i += 2) pack_grads(1, g, i, to, a, b, dp_left);
	else
		for (int i = from; i < to; i += 2) pack_grads(0, g, i, to, a, b, dp_left);
	for (int64_t k = 0; k < wide; k += 2 * TILE) {
		int64_t sums = (slot * wide + k) * KEYS, columns = k / TILE * across + from / TILE_INPUTS * TILE_BYTES;
		tile_factors f = {.sums = g->dv + sums, .row = 4 * KEYS, .left = t->dout_across + columns, .below = across,
		                  .right = (const char *)(t->p_right + from / 2 * KEYS), .right_row = 4 * KEYS};
		tile_sums(&t->file, f, tile_steps(to - from));
		f.sums = g->dk + sums;
		f.left = t->q_across + columns;
		f.right = (const char *)(t->dp_right + from / 2 * KEYS);
		tile_sums(&t->file, f, tile_steps(to - from));
	}
}

// The blocks that the queries from a tile's first to its last read.
typedef struct {
	int64_t first, end;
} block_range;

INLINE block_range blocks_read(const grad_space *g, int from, int to, int64_t window)
{
	return (block_range){first_block(g->position[from], window), g->position[to - 1] / KEYS + 1};
}

// The gradients of n queries and all blocks of their path. A tile of queries is combined only with the blocks that its own rows read; but
// several tiles and blocks are processed together, so that the gradient sums of both are rarely read and written.
static void grad_path_tiles(grad_space *g, int n, const grpo_attention_grad *a, const grpo_block *path, int64_t head)
{
	int64_t dim = a->dim, wide = padded(dim), half = KEYS * dim / 2;
	block_range all = blocks_read(g, 0, n, a->window);
	const float *keys[BLOCKS_AT_ONCE];
	for (int64_t b = all.first, start = b; b < all.end; b++) {
		int from = 0, to = n, step = b - start;
		while (blocks_read(g, from, min64(from + TILE_BACKWARD, n), a->window).end <= b) from += TILE_BACKWARD;
		while (first_block(g->position[(to - 1) / TILE_BACKWARD * TILE_BACKWARD], a->window) > b) to = (to - 1) / TILE_BACKWARD * TILE_BACKWARD;
		const float *block = packed_block(a, head, path[b].number);
		keys[step] = block + 2 * half;
		grad_block_tiles(g, from, to, a, block, block + half, path[b].slot, b, g->tiles.dp_left + step * TILE_BYTES);
		if (step + 1 < BLOCKS_AT_ONCE && b + 1 < all.end)
			continue;
		for (int i = 0; i < n; i += 2 * TILE) {
			int tile = i / TILE_BACKWARD * TILE_BACKWARD;
			block_range r = blocks_read(g, tile, min64(tile + TILE_BACKWARD, n), a->window);
			int64_t first = max64(r.first, start), end = min64(r.end, b + 1);
			tile_factors f = {.sums = g->dq + i * wide, .row = 4 * wide, .below = BLOCKS_AT_ONCE * TILE_BYTES, .right_row = 4 * wide,
			                  .left = g->tiles.dp_left + (i / TILE * BLOCKS_AT_ONCE + first - start) * TILE_BYTES};
			if (first < end)
				tile_query_sums(&g->tiles.file, n - i, f, keys + (first - start), end - first, wide);
		}
		start = b + 1;
	}
}

// Replaces the scores of row i and block b by probabilities, and the gradients of probabilities by gradients of scores.
INLINE void softmax_row(const int masked, grad_space *g, int i, const grpo_attention_grad *a, int64_t b)
{
	key_range r = keys_read(g, i, a, b);
	UNROLL for (int v = 0; v < KEYS; v += VL)
	{
		score_grad x = {splat(0), splat(0)};
		if (!masked || (r.limit >= 0 && r.first < KEYS))
			x = masked_grad(masked, g, i, v, r, a->cap);
		store(g->p + i * KEYS + v, x.probability);
		store(g->dp + i * KEYS + v, x.grad);
	}
}

INLINE void softmax_grads(grad_space *g, int n, const grpo_attention_grad *a, int64_t b)
{
	if (reads_in_part(g, 0, n, b, a->window))
		for (int i = 0; i < n; i++) softmax_row(1, g, i, a, b);
	else
		for (int i = 0; i < n; i++) softmax_row(0, g, i, a, b);
}

// The gradients of a tile of n queries and block b of their path. Each product prefetches what the next one reads, the last one the keys
// of the next block.
static void grad_block(grad_space *g, int n, int64_t depth, const grpo_attention_grad *a, int64_t head, const grpo_block *at, int64_t b,
                       int last)
{
	int64_t dim = a->dim, wide = padded(dim);
	float *dk = g->dk + at->slot * KEYS * wide, *dv = g->dv + at->slot * KEYS * wide;
	const float *keys_transposed = packed_block(a, head, at->number);
	const float *values_transposed = keys_transposed + KEYS * dim, *keys = values_transposed + KEYS * dim;
	product((small_product){.out = g->p, .out_stride = KEYS, .a = g->q, .a_stride = wide, .b = keys_transposed,
	                        .b_stride = KEYS, .depth = dim, .cols = KEYS, .fresh = 1, .prefetch = values_transposed}, n, 0);
	product((small_product){.out = g->dp, .out_stride = KEYS, .a = g->dout, .a_stride = wide, .b = values_transposed,
	                        .b_stride = KEYS, .depth = dim, .cols = KEYS, .fresh = 1, .prefetch = keys}, n, 0);
	softmax_grads(g, n, a, b);
	product((small_product){.out = g->dq, .out_stride = wide, .a = g->dp, .a_stride = KEYS, .b = keys, .b_stride = wide,
	                        .depth = depth, .cols = wide, .prefetch = dv}, n, 0);
	product((small_product){.out = dv, .out_stride = wide, .a = g->p, .a_stride = KEYS, .b = g->dout, .b_stride = wide,
	                        .depth = n, .cols = wide, .prefetch = dk}, KEYS, 1);
	product((small_product){.out = dk, .out_stride = wide, .a = g->dp, .a_stride = KEYS, .b = g->q, .b_stride = wide,
	                        .depth = n, .cols = wide, .prefetch = last ? NULL : packed_block(a, head, at[1].number)}, KEYS, 1);
}

static void grad_path(grad_space *g, int n, const grpo_attention_grad *a, const grpo_block *path, int64_t head)
{
	int64_t last = g->position[n - 1];
	for (int64_t b = first_block(g->position[0], a->window); b * KEYS <= last; b++)
		grad_block(g, n, min64(KEYS, last + 1 - b * KEYS), a, head, path + b, b, (b + 1) * KEYS > last);
}
