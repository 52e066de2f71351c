// The gradient of attention. A task has all queries of one tree and key-value head, span by span in preorder, in tiles. The
// gradient of a query sums over keys, that of a key or value over queries position by position and head by head, each in
// ascending order, and no other task adds to them. Each span has gradient sums for the blocks of keys that it owns; if its
// first block begins with rows of an earlier span, their sums are added to those of that span when the walk leaves this one.

// The addresses of the queries that are processed together, of the gradients of their outputs, and of their own gradients.
typedef struct {
	const float *q[QUERIES_AT_ONCE], *dout[QUERIES_AT_ONCE];
	float *dq[QUERIES_AT_ONCE];
} query_rows;

// How many queries ahead rows are prefetched.
enum { QUERIES_AHEAD = 8 };

INLINE void gather_query(const grpo_attention_grad *a, grad_space *g, query_rows *rows, int i, int64_t t, int64_t h)
{
	int64_t dim = a->dim, width = (a->q_heads + 2 * a->kv_heads) * dim, at = (t * a->q_heads + h) * dim;
	int64_t ahead = QUERIES_AHEAD * a->kv_heads * dim, in_row = head_in_row(a);
	rows->q[i] = a->qkv + t * a->row + h * in_row;
	rows->dq[i] = a->dqkv + t * width + h * dim;
	rows->dout[i] = a->dout + at;
	for (int64_t k = 0; k < dim; k += 16) {
		__builtin_prefetch(rows->dout[i] + ahead + k);
		__builtin_prefetch(a->out + at + ahead + k);
	}
	for (int64_t k = 0; k < in_row; k += 16) __builtin_prefetch(rows->q[i] + QUERIES_AHEAD * a->kv_heads * a->row / a->q_heads + k);
	g->lse[i] = a->lse[t * a->q_heads + h];
	g->delta[i] = row_dot(rows->dout[i], a->out + at, dim);
	if (!a->in_tiles) { // while the rows are in the first-level cache
		copy_scaled(g->q + i * padded(dim), rows->q[i], a->scale, dim);
		copy_scaled(g->dout + i * padded(dim), rows->dout[i], 1, dim);
	}
}

// In the order of tiles: packs n queries, and the gradients of their outputs, as left-hand sides for all blocks.
static void pack_grad_queries(const grpo_attention_grad *a, grad_space *g, const query_rows *rows, int n)
{
	int64_t dim = a->dim;
	for (int i = 0; i < n; i++) {
		if (a->rounded)
			copy_left_row(g->tiles.q_left, i, rows->q[i], dim);
		else
			pack_left_row(1, g->tiles.q_left, i, rows->q[i], a->scale, dim);
		pack_left_row(0, g->tiles.dout_left, i, rows->dout[i], 1, dim);
	}
	pack_across(g->tiles.q_across, g->tiles.q_left, n, dim, QUERIES_AT_ONCE);
	pack_across(g->tiles.dout_across, g->tiles.dout_left, n, dim, QUERIES_AT_ONCE);
	int64_t pairs = (n + 1) / 2, rest = tile_steps(n) * TILE - pairs;
	memset(g->tiles.p_right + pairs * KEYS, 0, 4 * rest * KEYS);
	memset(g->tiles.dp_right + pairs * KEYS, 0, 4 * rest * KEYS);
}

// Processes the queries of a span, which read all keys of its path.
static void enter_span(const grpo_attention_grad *a, const grpo_span *s, int64_t head, grad_space *g)
{
	int64_t group = a->q_heads / a->kv_heads, dim = a->dim, wide = padded(dim), own = s->blocks * KEYS * wide;
	int64_t together = a->in_tiles ? QUERIES_AT_ONCE : TILE_BACKWARD;
	memset(g->dk + s->slot * KEYS * wide, 0, 4 * own);
	memset(g->dv + s->slot * KEYS * wide, 0, 4 * own);
	for (int64_t start = 0; start < s->length * group; start += together) {
		int n = min64(together, s->length * group - start);
		query_rows rows;
		for (int i = 0; i < n; i++) {
			int64_t at = (start + i) / group;
			g->position[i] = s->base + at;
			gather_query(a, g, &rows, i, s->first + at, head * group + (start + i) % group);
		}
		if (a->in_tiles)
			pack_grad_queries(a, g, &rows, n);
		memset(g->dq, 0, 4 * n * wide);
		if (a->in_tiles)
			grad_path_tiles(g, n, a, a->paths + s->path, head);
		else
			grad_path(g, n, a, a->paths + s->path, head);
		for (int i = 0; i < n; i++) put_row(rows.dq[i], g->dq + i * wide, a->scale, dim, 1);
	}
}

// Adds gradient sums of rows before a span, which its first block has too, to those of the block that owns these rows: `count` numbers in
// each of `rows` rows.
INLINE void add_to_parent(float *to, const float *from, int64_t rows, int64_t row, int64_t count)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t k = 0; k < count; k++) to[i * row + k] += from[i * row + k];
}

// Writes the gradients of a span's keys or values, summed in blocks [KEYS][padded dim] or transposed, to rows of the gradient.
static void write_key_grads(const grpo_attention_grad *a, const grpo_span *s, const float *sums, float *rows, float *space)
{
	int64_t dim = a->dim, wide = padded(dim), width = (a->q_heads + 2 * a->kv_heads) * dim, before = s->base % KEYS;
	for (int64_t k = 0; k < s->blocks; k++, sums += KEYS * wide) {
		const float *block = sums;
		if (a->in_tiles) {
			transpose_rows(space, wide, sums, KEYS, wide, KEYS);
			block = space;
		}
		for (int64_t i = k ? 0 : before; i < min64(KEYS, before + s->length - k * KEYS); i++, rows += width)
			put_row(rows, block + i * wide, 1, dim, 1);
	}
}

// Writes the gradients of a span's keys and values, which no further query reads.
static void leave_span(const grpo_attention_grad *a, const grpo_span *s, int64_t head, grad_space *g)
{
	int64_t dim = a->dim, wide = padded(dim), width = (a->q_heads + 2 * a->kv_heads) * dim, before = s->base % KEYS;
	float *dk = g->dk + s->slot * KEYS * wide, *dv = g->dv + s->slot * KEYS * wide;
	if (before > 0 && s->blocks > 0) {
		int64_t to = a->paths[a->spans[s->parent].path + s->base / KEYS].slot * KEYS * wide;
		int64_t rows = a->in_tiles ? wide : before, row = a->in_tiles ? KEYS : wide, count = a->in_tiles ? before : wide;
		add_to_parent(g->dk + to, dk, rows, row, count);
		add_to_parent(g->dv + to, dv, rows, row, count);
	}
	float *row = a->dqkv + s->first * width + (a->q_heads + head) * dim;
	write_key_grads(a, s, dk, row, g->dq);
	write_key_grads(a, s, dv, row + a->kv_heads * dim, g->dq);
}

// Walks the tree whose root is the given span.
static void grad_tree(const grpo_attention_grad *a, int64_t root, int64_t head, float *scratch)
{
	grad_space g = grad_layout(scratch, a->dim, a->slots, a->in_tiles);
	int64_t current = -1; // the innermost span that the walk has entered and not left; its ancestors are entered, too
	for (int64_t i = root; i < a->count && (i == root || a->spans[i].parent >= root); i++) {
		const grpo_span *s = a->spans + i;
		if (s->length == 0)
			continue;
		for (; current != s->parent; current = a->spans[current].parent) leave_span(a, a->spans + current, head, &g);
		enter_span(a, s, head, &g);
		current = i;
	}
	for (; current >= 0; current = a->spans[current].parent) leave_span(a, a->spans + current, head, &g);
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
	streams_end();
	if (a->in_tiles) {
		tile_end();
		restore_subnormals(before);
	}
}
