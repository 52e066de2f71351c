// Products with a matrix of bf16 in the order of tiles: tile_ops.h defines one addition. A sum starts from zero and
// takes 32 inputs at a time, in ascending order, the last ones padded with zeros.
//
// The numbers that are multiplied with the matrix are rounded to bf16, or split into three pieces of bf16 whose sum they are (24
// bits). Then 32 inputs are three additions, the smallest piece first.
//
// A task is some tiles of rows times some panels of 32 columns. The reduction is processed in depths of TILE_DEPTH, such that a
// panel at one depth stays in the first-level cache and all rows in the second; between two depths the sums are kept in scratch.

// How many steps before its use a step of the right-hand side is packed.
enum { PACKED_AHEAD = 2 };

// With at most two tiles of rows what is packed is used once. Then the ring for it has few steps, which stay in the first-level cache as a
// whole block would not.
enum { FEW_STEPS = 4 };

// The size of a tile of rows: for each 32 inputs all its pieces.
INLINE int64_t left_tile_bytes(int64_t inner, int pieces) { return tile_steps(inner) * pieces * TILE_BYTES; }

// The strides of a left-hand side in bytes: from one row of a tile to the next, from a tile to the one below, and from a step or piece to
// the next; for a packed one, and for rounded rows with a stride.
typedef struct {
	int64_t row, below, step;
} left_layout;
#define LEFT_PACKED ((left_layout){4 * TILE, TILE_BYTES, TURN_BYTES})
#define LEFT_ROWS(apart) ((left_layout){apart, TILE * (apart), 4 * TILE})

// In a packed left-hand side two tiles of rows are interleaved, so that they are one stream of memory.
INLINE char *packed_tile(void *packed, int64_t tile, int64_t bytes)
{
	return (char *)packed + tile / 2 * 2 * bytes + tile % 2 * TILE_BYTES;
}

// Packs the first `height` rows of x into one tile of rows, interleaved with another; the rows below are zero.
static void pack_left_tile(char *tile, const float *x, int64_t stride, int height, int64_t inner, int pieces, int around)
{
	for (int64_t k = 0; k < inner; k += TILE_INPUTS, tile += pieces * TURN_BYTES) {
		int n = min64(TILE_INPUTS, inner - k);
		for (int i = 0; i < height; i++) {
			float whole[TILE_INPUTS] = {0};
			const float *inputs = x + i * stride + k;
			prefetch_lines((const char *)(inputs + 2 * TILE_INPUTS), 2); // too many streams for the hardware's prefetchers
			if (n < TILE_INPUTS)
				inputs = memcpy(whole, inputs, 4 * n);
			pack_inputs(tile + 4 * TILE * i, inputs, pieces, around);
		}
		for (int p = 0; p < pieces; p++)
			memset(tile + p * TURN_BYTES + 4 * TILE * height, 0, 4 * TILE * (TILE - height));
	}
}

// Packs rows of x [rows, inner]. A task is a tile of rows.
static void pack_tiles(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_tiles *p = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++)
		pack_left_tile(packed_tile(p->packed, t, left_tile_bytes(p->inner, p->pieces)), p->x + t * TILE * p->stride, p->stride,
		               min64(TILE, p->rows - t * TILE), p->inner, p->pieces, p->stream);
	streams_end();
}

// Packs columns of x [inner, rows], rounded. A task is a tile of rows.
static void pack_tiles_across(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_tiles_across *p = args;
	(void)scratch;
	for (int64_t t = from; t < to; t++)
		pack_across_tile(packed_tile(p->packed, t, left_tile_bytes(p->inner, 1)), p->x + t * TILE, p->stride,
		                 min64(TILE, p->rows - t * TILE), p->inner);
}

// What add_steps computes: to [one or two tiles][32] = (fresh ? 0 : from) + left · right. left is the first tile of rows. row and right_row
// are the strides in bytes of rows of sums and of right.
typedef struct tile_sum {
	const float *from;
	float *to;
	int64_t row;
	const char *left, *right;
	left_layout in; // the strides of left
	int64_t right_row, steps;
	int pieces, fresh;
	int thin;                    // a thin product: how many of its tiles of columns exist; else 0
	int begun;                   // its sums and first factors are already in the tiles
	const struct tile_sum *then; // the sum that is begun at the end of this one, if both have two tiles of rows, or NULL
	right_packer *packer; // packs right, or NULL: it is already there
	next_prefetch *next;   // what to prefetch for the time after this, or NULL
	finished *pending; // finished rows that are written meanwhile, or NULL
	const char *last_left, *last_right; // one more step, of one piece, packed; NULL: there is none
} tile_sum;

// The address of one of the four tiles in sums with that stride in bytes.
INLINE float *sums_at(const float *sums, int64_t row, const int tile)
{
	return (float *)((char *)sums + tile / 2 * TILE * row) + tile % 2 * TILE;
}

// The number of a tile is part of the instruction, so these are macros.
#define load_sum(f, tile, sums, row) tile_load_sums(f, tile, sums_at(sums, row, tile), row)
#define store_sum(f, tile, sums, row) tile_store_sums(f, tile, sums_at(sums, row, tile), row)
#define begin_sum(f, tile, t) \
	do { \
		if ((t)->fresh) \
			tile_zero(f, tile); \
		else \
			load_sum(f, tile, (t)->from, (t)->row); \
	} while (0)

INLINE void load_both_sums(tile_file *f, const int both, const float *sums, int64_t row)
{
	load_sum(f, SUMS_00, sums, row);
	load_sum(f, SUMS_01, sums, row);
	if (both) {
		load_sum(f, SUMS_10, sums, row);
		load_sum(f, SUMS_11, sums, row);
	}
}

INLINE void store_both_sums(tile_file *f, const int both, float *sums, int64_t row)
{
	store_sum(f, SUMS_00, sums, row);
	store_sum(f, SUMS_01, sums, row);
	if (both) {
		store_sum(f, SUMS_10, sums, row);
		store_sum(f, SUMS_11, sums, row);
	}
}

INLINE void begin_sums(tile_file *f, const int both, const tile_sum *t)
{
	begin_sum(f, SUMS_00, t);
	begin_sum(f, SUMS_01, t);
	if (both) {
		begin_sum(f, SUMS_10, t);
		begin_sum(f, SUMS_11, t);
	}
}

INLINE void load_first_factors(tile_file *f, const int both, const tile_sum *t)
{
	tile_load_right(f, RIGHT_0, t->right, t->right_row);
	tile_load_left_rows(f, LEFT_0, t->left, t->in.row);
	tile_load_right(f, RIGHT_1, t->right + 4 * TILE, t->right_row);
	if (both)
		tile_load_left_rows(f, LEFT_1, t->left + t->in.below, t->in.row);
}

// Adds the products of the loaded factors. Each tile of factors is loaded with the next ones, if any, right after its last use: the
// processor does not look far enough ahead to reorder that itself.
INLINE void add_loaded(tile_file *f, const int both, const int next_left, const int next_right, const char *left, left_layout in,
                       const char *right, int64_t row)
{
	tile_add(f, SUMS_00, LEFT_0, RIGHT_0);
	tile_add(f, SUMS_01, LEFT_0, RIGHT_1);
	if (next_left)
		tile_load_left_rows(f, LEFT_0, left, in.row);
	if (both)
		tile_add(f, SUMS_10, LEFT_1, RIGHT_0);
	if (next_right)
		tile_load_right(f, RIGHT_0, right, row);
	if (both)
		tile_add(f, SUMS_11, LEFT_1, RIGHT_1);
	if (both && next_left)
		tile_load_left_rows(f, LEFT_1, left + in.below, in.row);
	if (next_right)
		tile_load_right(f, RIGHT_1, right + 4 * TILE, row);
}

// The last addition to some sums and the beginning of others: each tile is stored and loaded again while the unit adds to others.
INLINE void add_last_and_begin(tile_file *f, const tile_sum *t, const tile_sum *then)
{
	tile_add(f, SUMS_00, LEFT_0, RIGHT_0);
	tile_add(f, SUMS_01, LEFT_0, RIGHT_1);
	tile_load_left_rows(f, LEFT_0, then->left, then->in.row);
	store_sum(f, SUMS_00, t->to, t->row);
	begin_sum(f, SUMS_00, then);
	tile_add(f, SUMS_10, LEFT_1, RIGHT_0);
	tile_load_right(f, RIGHT_0, then->right, then->right_row);
	store_sum(f, SUMS_01, t->to, t->row);
	begin_sum(f, SUMS_01, then);
	tile_add(f, SUMS_11, LEFT_1, RIGHT_1);
	tile_load_left_rows(f, LEFT_1, then->left + then->in.below, then->in.row);
	tile_load_right(f, RIGHT_1, then->right + 4 * TILE, then->right_row);
	store_sum(f, SUMS_10, t->to, t->row);
	begin_sum(f, SUMS_10, then);
	store_sum(f, SUMS_11, t->to, t->row);
	begin_sum(f, SUMS_11, then);
}

INLINE void add_steps(tile_file *f, const int both, const int pieces, const tile_sum *t)
{
	const int64_t row = t->right_row;
	const left_layout in = t->in;
	const int64_t ring = t->packer ? t->packer->ring - 1 : INT64_MAX;
	const char *left = t->left, *right = t->right;
	int64_t at = 0;
	next_prefetch next = {{NULL}};
	if (t->next)
		next = *t->next;
	if (!t->begun) {
		begin_sums(f, both, t);
		for (int i = 0; t->packer && i < PACKED_AHEAD; i++) pack_next_step(t->packer);
		load_first_factors(f, both, t);
	}
	for (int64_t s = 1; s < t->steps; s++) {
		if (t->packer)
			pack_next_step(t->packer);
		prefetch_next(&next.right);
		prefetch_next(&next.left);
		if (t->pending)
			write_finished(t->pending, WRITTEN_ROWS);
		if ((pieces > 1 || !both) && s % 2 == 0) // a step takes long; with one tile of rows it waits for the right-hand side
			tile_stay_awake(f);
		at = (at + TILE * row) & ring;
		UNROLL for (int p = 1; p <= pieces; p++) add_loaded(f, both, 1, p == pieces, left += in.step, in, right + at, row);
	}
	UNROLL for (int p = 1; p < pieces; p++) add_loaded(f, both, 1, 0, left += in.step, in, right, row);
	if (t->last_left)
		add_loaded(f, both, 1, 1, t->last_left, LEFT_PACKED, t->last_right, row);
	if (t->next)
		*t->next = next;
	if (t->pending)
		write_finished(t->pending, 2 * TILE);
	if (both && t->then) {
		add_last_and_begin(f, t, t->then);
		return;
	}
	add_loaded(f, both, 0, 0, left, in, right, row);
	store_both_sums(f, both, t->to, t->row);
}

INLINE void add_pieces(tile_file *f, const int both, const tile_sum *t)
{
	if (t->pieces == 1)
		add_steps(f, both, 1, t);
	else
		add_steps(f, both, PIECES, t);
}

// If steps are slow, one of this many stores a tile: see tile_stay_awake.
enum { AWAKE_STEPS = 4 };

// add_steps for a thin product, in one piece. It is bound by memory, so it does not overlap the end of one sum with the beginning of the
// next. If no more than 16 columns exist, only one tile of columns is computed.
INLINE void add_thin(tile_file *f, const int wide, const tile_sum *t)
{
	const int64_t ring = t->packer ? t->packer->ring - 1 : INT64_MAX;
	const char *left = t->left;
	int64_t at = 0;
	begin_sum(f, SUMS_00, t);
	begin_sum(f, SUMS_10, t);
	if (wide) {
		begin_sum(f, SUMS_01, t);
		begin_sum(f, SUMS_11, t);
	}
	for (int i = 0; t->packer && i < PACKED_AHEAD; i++) pack_next_step(t->packer);
	for (int64_t s = 0; s < t->steps; s++) {
		tile_load_right(f, RIGHT_0, t->right + at, t->right_row);
		tile_load_left_rows(f, LEFT_0, left, t->in.row);
		tile_load_left_rows(f, LEFT_1, left + t->in.below, t->in.row);
		if (wide)
			tile_load_right(f, RIGHT_1, t->right + at + 4 * TILE, t->right_row);
		if (t->packer)
			pack_next_step(t->packer);
		if (t->pending)
			write_finished(t->pending, WRITTEN_ROWS);
		if (s % AWAKE_STEPS == 0)
			tile_stay_awake(f);
		tile_add(f, SUMS_00, LEFT_0, RIGHT_0);
		tile_add(f, SUMS_10, LEFT_1, RIGHT_0);
		if (wide) {
			tile_add(f, SUMS_01, LEFT_0, RIGHT_1);
			tile_add(f, SUMS_11, LEFT_1, RIGHT_1);
		}
		left += t->in.step;
		at = (at + TILE * t->right_row) & ring;
	}
	if (t->pending)
		write_finished(t->pending, 2 * TILE);
	store_sum(f, SUMS_00, t->to, t->row);
	store_sum(f, SUMS_10, t->to, t->row);
	if (wide) {
		store_sum(f, SUMS_01, t->to, t->row);
		store_sum(f, SUMS_11, t->to, t->row);
	}
}

// Computes t for one tile of rows or two. (It does not take t by value: a copy would be read in wider pieces than it was just written in,
// which stalls store forwarding.)
static void add_tiles(tile_file *f, int rows, const tile_sum *t)
{
	f->rows[0] = min64(rows, TILE);
	f->rows[1] = rows - f->rows[0];
	if (rows > TILE && t->thin > 1)
		add_thin(f, 1, t);
	else if (rows > TILE && t->thin)
		add_thin(f, 0, t);
	else if (rows > TILE)
		add_pieces(f, 1, t);
	else
		add_pieces(f, 0, t);
}

// The probe of the unit: additions of factors that stay in the tiles.
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
