// Products of a matrix in bf16 in the order of tiles: see tile_ops.h for what one addition is. A sum starts from zero and
// takes 32 inputs at a time, in ascending order, the last ones filled up with zeros.
//
// What is multiplied with the matrix is rounded to bf16, or cut into three pieces of bf16 whose sum it is: 24 bits. Then
// 32 inputs are three additions, the smallest piece first.
//
// A task is some tiles of rows times some panels of 32 columns. The reduction goes in depths of TILE_DEPTH, so that a panel's
// stays in the first-level cache and all rows' in the second; between two depths the sums are kept in scratch.

// How many steps before it is multiplied a right-hand side is made.
enum { MADE_AHEAD = 2 };

// A tile of rows: for each 32 inputs its pieces.
INLINE int64_t left_tile_bytes(int64_t inner, int pieces) { return tile_steps(inner) * pieces * TILE_BYTES; }

// 32 inputs of one row as 16 pairs in a row of each piece's tile.
INLINE void pack_pairs(char *to, const float *x, const int pieces)
{
	for (int j = 0; j < TILE; j += VL) {
		vf a = load(x + 2 * j), b = load(x + 2 * j + VL);
		UNROLL for (int p = pieces - 1; p >= 0; p--)
		{
			vi first = rounded((vi)a), second = rounded((vi)b);
			*(vi_any *)(to + p * TILE_BYTES + 4 * j) = paired(EVEN_LANES(first, second), ODD_LANES(first, second));
			a = a - (vf)first;
			b = b - (vf)second;
		}
	}
}

// Rows [row, row+height) of x into one tile of rows; the rows below are zero.
static void pack_left_tile(char *tile, const float *x, int64_t stride, int height, int64_t inner, int pieces)
{
	for (int64_t k = 0; k < inner; k += TILE_INPUTS, tile += pieces * TILE_BYTES) {
		int n = min64(TILE_INPUTS, inner - k);
		for (int i = 0; i < height; i++) {
			float whole[TILE_INPUTS] = {0};
			const float *inputs = x + i * stride + k;
			prefetch_lines((const char *)(inputs + 2 * TILE_INPUTS), 2); // so many rows the processor does not follow by itself
			if (n < TILE_INPUTS)
				inputs = memcpy(whole, inputs, 4 * n);
			if (pieces == 1)
				pack_pairs(tile + 4 * TILE * i, inputs, 1);
			else
				pack_pairs(tile + 4 * TILE * i, inputs, PIECES);
		}
		for (int p = 0; p < pieces; p++)
			memset(tile + p * TILE_BYTES + 4 * TILE * height, 0, 4 * TILE * (TILE - height));
	}
}

// Rows of x [rows, inner]. A task is a tile of rows.
static void pack_tiles(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_tiles *p = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++)
		pack_left_tile((char *)p->packed + t * left_tile_bytes(p->inner, p->pieces), p->x + t * TILE * p->stride, p->stride,
		               min64(TILE, p->rows - t * TILE), p->inner, p->pieces);
}

// Columns of x [inner, rows], rounded. A task is a tile of rows.
static void pack_tiles_across(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_tiles_across *p = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++)
		pack_across_tile((char *)p->packed + t * left_tile_bytes(p->inner, 1), p->x + t * TILE, p->stride,
		                 min64(TILE, p->rows - t * TILE), p->inner);
}

// What add_steps adds up: to [one or two tiles][32] = (fresh ? 0 : from) + left · right. left is the first tile of rows; the
// second lies next_tile bytes behind it. Rows of sums and of right are so many bytes apart.
typedef struct {
	const float *from;
	float *to;
	int64_t row;
	const char *left;
	int64_t next_tile;
	const char *right;
	int64_t right_row, steps;
	int pieces, fresh;
	right_maker *make; // of right, or NULL: it is there
	const char *ahead; // what of memory will be wanted after this, so many bytes for each step
	int64_t ahead_bytes;
} tile_sum;

INLINE void begin_sums(tile_file *f, const int both, const tile_sum *t)
{
	const float *from = t->from, *below = (const float *)((const char *)from + TILE * t->row);
	if (t->fresh) {
		tile_zero(f, SUMS_00);
		tile_zero(f, SUMS_01);
	} else {
		tile_load_sums(f, SUMS_00, from, t->row);
		tile_load_sums(f, SUMS_01, from + TILE, t->row);
	}
	if (both && t->fresh) {
		tile_zero(f, SUMS_10);
		tile_zero(f, SUMS_11);
	} else if (both) {
		tile_load_sums(f, SUMS_10, below, t->row);
		tile_load_sums(f, SUMS_11, below + TILE, t->row);
	}
}

INLINE void end_sums(tile_file *f, const int both, const tile_sum *t)
{
	float *to = t->to, *below = (float *)((char *)to + TILE * t->row);
	tile_store_sums(f, SUMS_00, to, t->row);
	tile_store_sums(f, SUMS_01, to + TILE, t->row);
	if (both) {
		tile_store_sums(f, SUMS_10, below, t->row);
		tile_store_sums(f, SUMS_11, below + TILE, t->row);
	}
}

// A step asks memory for weights of the panel that is next, into the second-level cache.
INLINE void ask_ahead(const tile_sum *t, int64_t step)
{
	const char *ahead = t->ahead + step * t->ahead_bytes;
	for (int64_t i = 0; i < t->ahead_bytes; i += 64) __builtin_prefetch(ahead + i, 0, 2);
}

// A factor of the next addition is loaded as soon as the one in its tile was read for the last time: a core that shares its
// caches and queues with another thread does not look far enough ahead to do so by itself.
INLINE void add_steps(tile_file *f, const int both, const int pieces, const tile_sum *t)
{
	const int64_t row = t->right_row, below = t->next_tile;
	const char *left = t->left, *right = t->right;
	begin_sums(f, both, t);
	for (int i = 0; t->make && i < MADE_AHEAD; i++) make_right(t->make);
	tile_load_right(f, RIGHT_0, right, row);
	tile_load_left(f, LEFT_0, left);
	tile_load_right(f, RIGHT_1, right + 4 * TILE, row);
	if (both)
		tile_load_left(f, LEFT_1, left + below);
	for (int64_t s = 0; s < t->steps; s++) {
		const int more = s + 1 < t->steps;
		if (t->make)
			make_right(t->make);
		ask_ahead(t, s);
		right += TILE * row;
		UNROLL for (int p = 0; p < pieces; p++)
		{
			const int last = p + 1 == pieces;
			left += TILE_BYTES;
			tile_add(f, SUMS_00, LEFT_0, RIGHT_0);
			tile_add(f, SUMS_01, LEFT_0, RIGHT_1);
			if (!last || more)
				tile_load_left(f, LEFT_0, left);
			if (both)
				tile_add(f, SUMS_10, LEFT_1, RIGHT_0);
			if (last && more)
				tile_load_right(f, RIGHT_0, right, row);
			if (both)
				tile_add(f, SUMS_11, LEFT_1, RIGHT_1);
			if (both && (!last || more))
				tile_load_left(f, LEFT_1, left + below);
			if (last && more)
				tile_load_right(f, RIGHT_1, right + 4 * TILE, row);
		}
	}
	end_sums(f, both, t);
}

INLINE void add_pieces(tile_file *f, const int both, const tile_sum *t)
{
	if (t->pieces == 1)
		add_steps(f, both, 1, t);
	else
		add_steps(f, both, PIECES, t);
}

// The same for so many rows: one tile of them, or two.
static void add_tiles(tile_file *f, int rows, tile_sum t)
{
	f->rows[0] = min64(rows, TILE);
	f->rows[1] = rows - f->rows[0];
	if (rows > TILE)
		add_pieces(f, 1, &t);
	else
		add_pieces(f, 0, &t);
}

// What is written for a sum, and for what is added to it.
INLINE vf joined(const float *sum, const float *added, const target *t, int column)
{
	vf whole = epilogue(load(sum), t, 0, column);
	return added ? whole + load(added) : whole;
}

// Finished sums [rows][32] of a panel, of which so many columns exist, and with them what is added or NULL, to where they belong.
static void write_tiles(const float *sums, const float *added, int rows, int valid, const target *t)
{
	float copy[PANEL] = {0}, bias[PANEL] = {0};
	target c = *t;
	if (valid < PANEL && t->bias)
		c.bias = memcpy(bias, t->bias, 4 * valid);
	for (int i = 0; i < rows; i++, sums += PANEL, added = added ? added + PANEL : NULL) {
		float *row = t->out + i * t->stride;
		c.out = row;
		c.row_scale = t->row_scale ? t->row_scale + i : NULL;
		if (valid < PANEL) {
			c.out = copy;
			if (t->accumulate)
				memcpy(copy, row, 4 * valid);
		}
		if (t->stream && valid == PANEL && (uintptr_t)row % (4 * VL) == 0) {
			UNROLL for (int v = 0; v < PANEL; v += VL) stream(row + v, joined(sums + v, added ? added + v : NULL, &c, v));
			continue;
		}
		UNROLL for (int v = 0; v < PANEL; v += VL) store(c.out + v, joined(sums + v, added ? added + v : NULL, &c, v));
		if (valid < PANEL)
			memcpy(row, copy, 4 * valid);
	}
}

// The same where out is [32][rows].
static void write_across(const float *sums, int rows, int valid, const target *t)
{
	for (int c = 0; c < valid; c++)
		for (int i = 0; i < rows; i++) {
			float *out = t->out + c * t->stride + i, base = t->accumulate ? *out : 0;
			*out = fused_float(sums[i * PANEL + c], t->alpha, base);
		}
}

// Additions of what lies in tiles already.
static void peak_tiles(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_peak_tiles *a = args;
	tile_file f = {.rows = {TILE, TILE}};
	(void)scratch, (void)f;
	tile_begin();
	for (int64_t t = from; t < to; t++) {
		float *sink = a->sink + t * TILE * TILE;
		memset(sink, 0, TILE_BYTES);
		tile_load_left(&f, LEFT_0, sink);
		tile_load_left(&f, LEFT_1, sink);
		tile_load_right(&f, RIGHT_0, sink, 4 * TILE);
		tile_load_right(&f, RIGHT_1, sink, 4 * TILE);
		tile_zero(&f, SUMS_00);
		tile_zero(&f, SUMS_01);
		tile_zero(&f, SUMS_10);
		tile_zero(&f, SUMS_11);
		for (int64_t r = 0; r < a->rounds; r++) {
			tile_add(&f, SUMS_00, LEFT_0, RIGHT_0);
			tile_add(&f, SUMS_01, LEFT_0, RIGHT_1);
			tile_add(&f, SUMS_10, LEFT_1, RIGHT_0);
			tile_add(&f, SUMS_11, LEFT_1, RIGHT_1);
		}
		tile_store_sums(&f, SUMS_11, sink, 4 * TILE);
	}
	tile_end();
}
