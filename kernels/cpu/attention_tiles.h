// The products of attention's gradient in the order of tiles: what attention_grad.h says of them holds here too. Both sides
// are rounded to bf16: queries and gradients of outputs once for a tile of queries, probabilities and the gradients of
// scores for each block of keys.

// The sides of products that a tile of queries has. A left-hand side is in tiles of rows (pack_left), a right-hand side in
// pairs of rows.
typedef struct {
	char *q_left, *dout_left;       // [TILE_BACKWARD][padded dim]
	float *q_right, *dout_right;    // [TILE_BACKWARD/2][padded dim]
	char *dp_left;                  // [TILE_BACKWARD][KEYS]
	char *p_across, *dp_across;     // [KEYS][TILE_BACKWARD], transposed
	float *pairs;                   // [TILE_BACKWARD/2][KEYS]
	tile_file file;
} tile_space;

static tile_space tile_layout(float *scratch, int64_t dim)
{
	int64_t queries = TILE_BACKWARD / 2 * padded(dim), scores = TILE_BACKWARD / 2 * KEYS; // of one side, in floats
	tile_space t;
	t.q_left = (char *)scratch;
	t.dout_left = (char *)(scratch + queries);
	t.q_right = scratch + 2 * queries;
	t.dout_right = scratch + 3 * queries;
	scratch += 4 * queries;
	t.dp_left = (char *)scratch;
	t.p_across = (char *)(scratch + scores);
	t.dp_across = (char *)(scratch + 2 * scores);
	t.pairs = scratch + 3 * scores;
	return t;
}

// What n queries give to every block, from rows [n][padded dim].
static void pack_tile_queries(tile_space *t, const float *q, const float *dout, int n, int64_t dim)
{
	int64_t wide = padded(dim);
	pack_left(t->q_left, q, wide, n, dim);
	pack_left(t->dout_left, dout, wide, n, dim);
	pair_rows(t->q_right, q, n, TILE_BACKWARD, wide);
	pair_rows(t->dout_right, dout, n, TILE_BACKWARD, wide);
}

// x [n][KEYS] transposed as a left-hand side of KEYS rows: pairs of its rows, 16 × 16 of them transposed.
static void pack_across(tile_space *t, char *left, const float *x, int n)
{
	enum { STEPS = TILE_BACKWARD / TILE_INPUTS };
	pair_rows(t->pairs, x, n, TILE_BACKWARD, KEYS);
	for (int key = 0; key < KEYS; key += VL)
		for (int j = 0; j < TILE_BACKWARD / 2; j += VL) {
			char *tile = left + (key / TILE * STEPS + j / TILE) * TILE_BYTES;
			vi r[VL];
			UNROLL for (int i = 0; i < VL; i++) r[i] = (vi)load(t->pairs + (j + i) * KEYS + key);
			transpose(r);
			UNROLL for (int i = 0; i < VL; i++) *(vi_any *)(tile + 4 * ((key % TILE + i) * TILE + j % TILE)) = r[i];
		}
}

// out [n][width] = (fresh ? 0 : out) + left [n][inner] · right [inner][width], for a left-hand side with room for `deepest`.
static void tile_product(tile_space *t, float *out, int64_t width, int n, const char *left, int64_t inner, int64_t deepest,
                         const float *right, int fresh)
{
	int64_t next = left_tile_bytes(deepest, 1);
	for (int row = 0; row < n; row += 2 * TILE)
		for (int64_t c = 0; c < width; c += PANEL)
			add_tiles(&t->file, min64(2 * TILE, n - row), (tile_sum){
				.from = out + row * width + c, .to = out + row * width + c, .row = 4 * width, .left = left + row / TILE * next, .next_tile = next,
				.right = (const char *)(right + c), .right_row = 4 * width, .steps = tile_steps(inner), .pieces = 1,
				.fresh = fresh});
}
