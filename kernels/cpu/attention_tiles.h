// The products of attention in the order of tiles. Both sides are rounded to bf16: queries and gradients of outputs once for
// a tile of queries, probabilities and the gradients of scores for each block of keys. A left-hand side is in contiguous tiles
// of rows, not interleaved as in tiles.h; a right-hand side in pairs of rows.

// Writes 32 inputs of one row as pairs; computed says that they are not subnormal.
INLINE void put_pairs(const int computed, char *to, const vf x[TILE_INPUTS / VL])
{
	UNROLL for (int v = 0; v < TILE_INPUTS / VL; v += 2)
		*(vi_any *)(to + 2 * VL * v) = computed ? computed_along(x[v], x[v + 1]) : pairs_along(x[v], x[v + 1]);
}

// Row i of a left-hand side.
INLINE char *left_row(char *left, int i, int64_t dim) { return left + i / TILE * left_tile_bytes(dim, 1) + i % TILE * 4 * TILE; }

// Writes x to that row, rounded, and scaled before that if asked for.
INLINE void pack_left_row(const int scaled, char *left, int i, const float *x, float scale, int64_t dim)
{
	char *to = left_row(left, i, dim);
	for (int64_t k = 0; k < dim; k += TILE_INPUTS, to += TILE_BYTES) {
		vf r[TILE_INPUTS / VL];
		UNROLL for (int v = 0; v < TILE_INPUTS / VL; v++)
			r[v] = scaled ? load_partial(x, k + v * VL, dim) * scale : load_partial(x, k + v * VL, dim);
		put_pairs(scaled, to, r);
	}
}

// Copies pairs to that row unchanged.
INLINE void copy_left_row(char *left, int i, const float *pairs, int64_t dim)
{
	char *to = left_row(left, i, dim);
	for (int64_t k = 0; k < dim / 2; k += TILE, to += TILE_BYTES)
		UNROLL for (int v = 0; v < TILE; v += VL) store((float *)to + v, load_partial(pairs, k + v, dim / 2));
}

// Transposes n rows of a left-hand side into one with room for `inputs` inputs: pairs of rows, 16 × 16 of them at a time.
static void pack_across(char *across, const char *left, int n, int64_t dim, int inputs)
{
	for (int64_t c = 0; c < padded(dim); c += 2 * VL)
		for (int j = 0; 2 * j < tile_steps(n) * TILE_INPUTS; j += VL) {
			char *to = across + c / TILE * left_tile_bytes(inputs, 1) + j / TILE * TILE_BYTES + 4 * (c % TILE * TILE + j % TILE);
			vi even[VL], odd[VL];
			UNROLL for (int i = 0; i < VL; i++)
			{
				const int row = 2 * (j + i);
				const char *from = left_row((char *)left, row, dim) + c / TILE_INPUTS * TILE_BYTES + 2 * (c % TILE_INPUTS);
				vi first = row < n ? loadi(from) : (vi){0}, second = row + 1 < n ? loadi(from + 4 * TILE) : (vi){0};
				pairs_below p = put_below(first, second);
				even[i] = p.even;
				odd[i] = p.odd;
			}
			transpose(even);
			transpose(odd);
			UNROLL for (int i = 0; i < VL; i++)
			{
				char *column = to + 2 * i / TILE * left_tile_bytes(inputs, 1) + 2 * i % TILE * 4 * TILE;
				*(vi_any *)column = even[i];
				*(vi_any *)(column + 4 * TILE) = odd[i];
			}
		}
}

// The sums that a product adds to, and its factors: up to two tiles of rows of the left-hand side, `below` bytes apart.
typedef struct {
	float *sums;
	int64_t row; // bytes from one row of sums to the next
	const char *left;
	int64_t below;
	const char *right;
	int64_t right_row;
} tile_factors;

INLINE void load_factors(tile_file *f, const int both, const tile_factors *t, const char *left, const char *right)
{
	tile_load_left(f, LEFT_0, left);
	tile_load_right(f, RIGHT_0, right, t->right_row);
	tile_load_right(f, RIGHT_1, right + 4 * TILE, t->right_row);
	if (both)
		tile_load_left(f, LEFT_1, left + t->below);
}

// The same for two tiles of rows that are multiplied with one block after the other: the rows stay in the first-level cache, the blocks
// are loaded around it.
INLINE void load_factors_once(tile_file *f, const tile_factors *t, const char *left, const char *right)
{
	tile_load_left_kept(f, LEFT_0, left, 4 * TILE);
	tile_load_right_once(f, RIGHT_0, right, t->right_row);
	tile_load_right_once(f, RIGHT_1, right + 4 * TILE, t->right_row);
	tile_load_left_kept(f, LEFT_1, left + t->below, 4 * TILE);
}

INLINE void add_both(tile_file *f, const int both)
{
	tile_add(f, SUMS_00, LEFT_0, RIGHT_0);
	tile_add(f, SUMS_01, LEFT_0, RIGHT_1);
	if (both) {
		tile_add(f, SUMS_10, LEFT_1, RIGHT_0);
		tile_add(f, SUMS_11, LEFT_1, RIGHT_1);
	}
}

// 32 columns of sums = (fresh ? 0 : sums) + left · right, over all inputs.
INLINE void add_inputs(tile_file *f, const int both, const int fresh, const tile_factors *t, int64_t steps)
{
	const char *left = t->left, *right = t->right;
	if (fresh) {
		UNROLL for (int c = 0; c < 2 + 2 * both; c++) tile_zero(f, SUMS_00 + c);
	} else {
		load_both_sums(f, both, t->sums, t->row);
	}
	for (int64_t s = 0; s < steps; s++, left += TILE_BYTES, right += TILE * t->right_row) {
		load_factors(f, both, t, left, right);
		add_both(f, both);
	}
	store_both_sums(f, both, t->sums, t->row);
}

// One step of scores of two tiles of rows.
INLINE void add_scores(tile_file *f, const tile_factors *t, int64_t step)
{
	load_factors_once(f, t, t->left + step * TILE_BYTES, t->right + step * TILE * t->right_row);
	add_both(f, 1);
}

// All columns of sums [rows][width] += left · right over some blocks of 32 inputs.
INLINE void add_blocks(tile_file *f, const int both, const tile_factors *t, const float *const *blocks, int count, int64_t width)
{
	for (int64_t c = 0; c < width; c += PANEL) {
		load_both_sums(f, both, t->sums + c, t->row);
		for (int b = 0; b < count; b++) {
			const char *left = t->left + b * TILE_BYTES, *right = (const char *)(blocks[b] + c);
			load_factors(f, both, t, left, right);
			add_both(f, both);
		}
		store_both_sums(f, both, t->sums + c, t->row);
	}
}

// The same for one block and two tiles of rows, which stay loaded. Each panel is begun while the one before is stored.
INLINE void add_block(tile_file *f, const tile_factors *t, int64_t width)
{
	const char *right = t->right;
	float *sums = t->sums;
	load_both_sums(f, 1, sums, t->row);
	load_factors_once(f, t, t->left, right);
	for (int64_t c = PANEL; c < width; c += PANEL) {
		float *next = t->sums + c;
		right += 4 * PANEL;
		tile_add(f, SUMS_00, LEFT_0, RIGHT_0);
		tile_add(f, SUMS_01, LEFT_0, RIGHT_1);
		store_sum(f, SUMS_00, sums, t->row);
		load_sum(f, SUMS_00, next, t->row);
		tile_add(f, SUMS_10, LEFT_1, RIGHT_0);
		tile_load_right_once(f, RIGHT_0, right, t->right_row);
		store_sum(f, SUMS_01, sums, t->row);
		load_sum(f, SUMS_01, next, t->row);
		tile_add(f, SUMS_11, LEFT_1, RIGHT_1);
		tile_load_right_once(f, RIGHT_1, right + 4 * TILE, t->right_row);
		store_sum(f, SUMS_10, sums, t->row);
		load_sum(f, SUMS_10, next, t->row);
		store_sum(f, SUMS_11, sums, t->row);
		load_sum(f, SUMS_11, next, t->row);
		sums = next;
	}
	add_both(f, 1);
	store_both_sums(f, 1, sums, t->row);
}

INLINE int begin_rows(tile_file *f, int64_t rows)
{
	f->rows[0] = min64(rows, TILE);
	f->rows[1] = min64(rows - f->rows[0], TILE);
	return rows > TILE;
}

// Scores of up to 32 rows.
static void tile_scores(tile_file *f, int64_t rows, tile_factors t, int64_t steps)
{
	if (begin_rows(f, rows))
		add_inputs(f, 1, 1, &t, steps);
	else
		add_inputs(f, 0, 1, &t, steps);
}

// Adds left · right to 32 rows of sums.
static void tile_sums(tile_file *f, tile_factors t, int64_t steps)
{
	begin_rows(f, 2 * TILE);
	add_inputs(f, 1, 0, &t, steps);
}

// Adds a product with one block of values to up to 32 rows of sums, as wide as a head.
static void tile_value_sums(tile_file *f, int64_t rows, tile_factors t, int64_t width)
{
	const float *block = (const float *)t.right;
	if (begin_rows(f, rows))
		add_block(f, &t, width);
	else
		add_blocks(f, 0, &t, &block, 1, width);
}

// Adds products with several blocks of keys to up to 32 rows of sums: gradients of queries.
static void tile_query_sums(tile_file *f, int64_t rows, tile_factors t, const float *const *blocks, int count, int64_t width)
{
	if (begin_rows(f, rows))
		add_blocks(f, 1, &t, blocks, count, width);
	else
		add_blocks(f, 0, &t, blocks, count, width);
}
