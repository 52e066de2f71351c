// The one product behind every operation on matrices: packed rows times 32 columns.
//
// A register tile is up to MR rows by NV vectors of columns. Its right-hand side is 32 columns wide and at
// most DEPTH deep, widened or transposed once into the worker's scratch and swept by all row tiles of
// the task, so it stays in the nearest cache; between two depths the sums wait in scratch, which keeps
// their bits.

// How many steps ahead of its reading a product of few rows asks for weights: enough to hide the latency of
// memory, which the hardware's own guesses do not.
enum { STEPS_AHEAD = 96 };

// The same for rows of a buffer. Less, for they may share a set of the cache.
enum { ROWS_AHEAD = 16 };

enum { SUBTILES = PANEL / (NV * VL) };

// Row tiles have nearly equal heights; tile i starts at this row.
INLINE int64_t tile_start(int64_t rows, int64_t tiles, int64_t i)
{
	int64_t base = rows / tiles, rest = rows % tiles;
	return i * base + min64(i, rest);
}

// The columns of vector v in subtile s: the low and high halves of bf16 words alternate, and the
// widened panel is walked the same way.
INLINE int column_of(int s, int v) { return (s * (NV / 2) + v / 2) * VL + (v & 1) * (PANEL / 2); }

// How a finished sum is written.
typedef struct {
	float *out; // 32 columns
	int64_t stride;
	const float *bias, *row_scale;
	float alpha;
	int accumulate;
} target;

INLINE vf finish(vf sum, const target *t, int row, int column)
{
	vf base = splat(0);
	if (t->accumulate)
		base = load(t->out + row * t->stride + column);
	if (t->row_scale)
		base = base * t->row_scale[row];
	if (t->bias) {
		vf b = load(t->bias + column);
		base = base + b;
	}
	return sum * t->alpha + base;
}

// A tile reads its right-hand side as 32 floats a row, as words of bf16, or as 32 floats of which only the
// first 16 matter: a low-rank adapter often has no more. Its left-hand side is packed, so that the numbers of one
// step are neighbours, or spread, one row here and one there.
enum { WIDE, WORDS, NARROW, B_FORMS };
enum { TOGETHER, SPREAD, A_FORMS };

// A spread tile is lower: rows a multiple of 4096 bytes apart share one set of the nearest cache.
enum { SPREAD_ROWS = MR < 8 ? MR : 8 };

// What a tile reads: step k finds the numbers of a at a + k·a_step, a_apart from each other, and those of b at
// b + k·b_step. soon is what to ask the memory for meanwhile, one line for each step.
typedef struct {
	const float *a;
	const char *b, *soon;
	int64_t a_step, a_apart; // in floats
	int64_t b_step, soon_step; // in bytes
	int depth, first, last; // of the depths of one sum
} reading;

// sums [mr][32] waits between two depths.
INLINE void tile(const int mr, const int a_form, const int b_form, const reading *r, float *sums, const target *t)
{
	const int step = b_form == NARROW ? 2 : 1; // odd vectors are columns 16 … 31
	const int64_t a_step = r->a_step, a_apart = a_form == SPREAD ? r->a_apart : 1;
	const int64_t b_step = r->b_step, soon_step = r->soon_step;
	const int depth = r->depth, last = r->last;
	for (int s = 0; s < SUBTILES; s++) {
		vf acc[MR][NV];
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < NV; v += step)
				acc[i][v] = r->first ? splat(0) : load(sums + i * PANEL + column_of(s, v));
		if (last && t->accumulate && depth >= 64)
			UNROLL for (int i = 0; i < mr; i++)
				UNROLL for (int v = 0; v < NV; v += step) __builtin_prefetch(t->out + i * t->stride + column_of(s, v), 1);
		const float *ak = r->a;
		const char *bk = r->b, *soon = r->soon;
		for (int k = 0; k < depth; k++, ak += a_step, bk += b_step, soon += soon_step) {
			vf bv[NV];
			__builtin_prefetch(soon);
			UNROLL for (int v = 0; v < NV; v += 2)
			{
				if (b_form == WORDS) {
					vi w = loadi(bk + 4 * column_of(s, v));
					bv[v] = widen_low(w);
					bv[v + 1] = widen_high(w);
				} else {
					bv[v] = load((const float *)bk + column_of(s, v));
					if (b_form == WIDE)
						bv[v + 1] = load((const float *)bk + column_of(s, v + 1));
				}
			}
			UNROLL for (int i = 0; i < mr; i++)
				UNROLL for (int v = 0; v < NV; v += step) acc[i][v] += bv[v] * ak[i * a_apart];
		}
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < NV; v += step)
			{
				int c = column_of(s, v);
				if (last)
					store(t->out + i * t->stride + c, finish(acc[i][v], t, i, c));
				else
					store(sums + i * PANEL + c, acc[i][v]);
			}
	}
}

typedef void tile_function(const reading *r, float *sums, const target *t);

#define TILE_OF(a, b, mr) \
	static void tile_##a##_##b##_##mr(const reading *r, float *sums, const target *t) { tile(mr, a, b, r, sums, t); }
#define TILE(mr)                                                                          \
	TILE_OF(TOGETHER, WIDE, mr) TILE_OF(TOGETHER, WORDS, mr) TILE_OF(TOGETHER, NARROW, mr) \
	TILE_OF(SPREAD, WIDE, mr) TILE_OF(SPREAD, WORDS, mr) TILE_OF(SPREAD, NARROW, mr)
#define ENTRY(mr)                                                           \
	{{tile_TOGETHER_WIDE_##mr, tile_TOGETHER_WORDS_##mr, tile_TOGETHER_NARROW_##mr}, \
	 {tile_SPREAD_WIDE_##mr, tile_SPREAD_WORDS_##mr, tile_SPREAD_NARROW_##mr}},
#if MR == 14
#define HEIGHTS(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14)
#elif MR == 6
#define HEIGHTS(F) F(1) F(2) F(3) F(4) F(5) F(6)
#elif MR == 4
#define HEIGHTS(F) F(1) F(2) F(3) F(4)
#endif
HEIGHTS(TILE)
static tile_function *const tile_functions[MR + 1][A_FORMS][B_FORMS] = {{{0}}, HEIGHTS(ENTRY)};

// t[VL][VL] transposed by interleaving halves log2(VL) times.
#if VL == 16
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VL == 8
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

INLINE void transpose(vi r[VL])
{
	UNROLL for (int stage = 1; stage < VL; stage *= 2)
	{
		vi z[VL];
		UNROLL for (int i = 0; i < VL / 2; i++)
		{
			z[2 * i] = ZIP_LOW(r[i], r[i + VL / 2]);
			z[2 * i + 1] = ZIP_HIGH(r[i], r[i + VL / 2]);
		}
		UNROLL for (int i = 0; i < VL; i++) r[i] = z[i];
	}
}

// Columns [k, k+depth) of a bf16 panel as floats, 32 to a row.
static void widen_panel(float *block, const char *words, int64_t depth)
{
	for (int64_t k = 0; k < depth; k++)
		UNROLL for (int c = 0; c < PANEL / 2; c += VL)
		{
			vi w = loadi(words + k * 2 * PANEL + 4 * c);
			store(block + k * PANEL + c, widen_low(w));
			store(block + k * PANEL + PANEL / 2 + c, widen_high(w));
		}
}

// block[n][32] = rows n of one panel at its columns k … k+31, of which valid exist: 32 × 32 numbers turned.
static void turn_panel(float *block, const grpo_matrix *m, int64_t panel, int64_t k, int valid)
{
	int size = m->dtype == GRPO_BF16 ? 2 : 4, column = PANEL * size;
	const char *src = panel_at(m, panel) + k * column;
	char padded[PANEL * PANEL * 4];
	int width = (valid + VL - 1) / VL * VL; // what is beyond is not looked at
	if (valid < width) {
		memcpy(padded, src, valid * column);
		memset(padded + valid * column, 0, (width - valid) * column);
		src = padded;
	}
	int lanes_wide = column / 4; // 32-bit lanes in a column
	for (int c = 0; c < lanes_wide; c += VL)
		for (int k0 = 0; k0 < width; k0 += VL) {
			vi r[VL];
			UNROLL for (int i = 0; i < VL; i++) r[i] = loadi(src + (k0 + i) * column + 4 * c);
			transpose(r);
			UNROLL for (int i = 0; i < VL; i++)
			{
				float *to = block + (c + i) * PANEL + k0;
				if (size == 2) {
					store(to, widen_low(r[i]));
					store(to + PANEL / 2 * PANEL, widen_high(r[i]));
				} else {
					store(to, (vf)r[i]);
				}
			}
		}
}

// Asks for what turn_panel will read soon. It lies far from what is read now, where no hardware looks.
INLINE void fetch_panel(const grpo_matrix *m, int64_t panel, int64_t k, int valid)
{
	int column = PANEL * (m->dtype == GRPO_BF16 ? 2 : 4);
	const char *p = panel_at(m, panel) + k * column;
	for (int i = 0; i < valid * column; i += 64) __builtin_prefetch(p + i);
}


// block[n][32] = 32 columns, of which valid exist, of the rows of a buffer.
static void copy_rows(float *block, const float *src, int64_t stride, int64_t depth, int valid)
{
	for (int64_t n = 0; n < depth; n++, src += stride, block += PANEL) {
		__builtin_prefetch(src + ROWS_AHEAD * stride);
		__builtin_prefetch(src + ROWS_AHEAD * stride + PANEL - 1);
		if (valid == PANEL) {
			UNROLL for (int c = 0; c < PANEL; c += VL) store(block + c, load(src + c));
		} else {
			memcpy(block, src, valid * 4);
			memset(block + valid, 0, (PANEL - valid) * 4);
		}
	}
}

// The right-hand side of one panel of columns at depths [k, k+depth): where it is, and how far apart.
static const char *right_side(const grpo_gemm *g, int64_t panel, int64_t k, int64_t depth, int single,
                              float *block, int64_t *step)
{
	int64_t c0 = panel * PANEL;
	int valid = min64(g->cols - c0, PANEL);
	*step = PANEL * 4;
	if (g->b_kind == B_OUTPUTS) {
		const char *p = panel_at(&g->m, g->m_offset / PANEL + panel);
		if (g->m.dtype != GRPO_BF16)
			return p + k * PANEL * 4;
		if (single) { // swept once: widened in the registers
			*step = PANEL * 2;
			return p + k * PANEL * 2;
		}
		widen_panel(block, p + k * PANEL * 2, depth);
	} else if (g->b_kind == B_INPUTS) {
		for (int64_t n = 0; n < depth; n += PANEL) {
			int64_t p = (g->m_offset + k + n) / PANEL;
			fetch_panel(&g->m, p + 2, c0, valid);
			turn_panel(block + n * PANEL, &g->m, p, c0, valid);
		}
	} else {
		const float *src = g->b + k * g->b_stride + c0;
		copy_rows(block, src, g->b_stride, depth, valid);
	}
	return (const char *)block;
}

// A tile at the right edge, where fewer than 32 columns exist, goes through a padded copy.
static void edge_tile(tile_function *f, int mr, int valid, const reading *r, float *sums, const target *t)
{
	float copy[MR * PANEL] = {0}, bias[PANEL] = {0};
	target c = *t;
	c.out = copy;
	c.stride = PANEL;
	if (t->bias && r->last) {
		memcpy(bias, t->bias, valid * 4);
		c.bias = bias;
	}
	if (t->accumulate && r->last)
		for (int i = 0; i < mr; i++) memcpy(copy + i * PANEL, t->out + i * t->stride, valid * 4);
	f(r, sums, &c);
	if (r->last)
		for (int i = 0; i < mr; i++) memcpy(t->out + i * t->stride, copy + i * PANEL, valid * 4);
}

// The left-hand side of the tile of mr rows from row on, at depth k.
INLINE void left_side(reading *r, const grpo_gemm *g, int64_t row, int mr, int64_t k)
{
	r->a_apart = 1;
	if (g->a_kind == A_PACKED) {
		r->a = g->a + row * g->inner + k * mr;
		r->a_step = mr;
	} else if (g->a_kind == A_COLS) {
		r->a = g->a + k * g->a_stride + row;
		r->a_step = g->a_stride;
	} else {
		r->a = g->a + row * g->a_stride + k;
		r->a_step = 1;
		r->a_apart = g->a_stride;
	}
}

// Chooses what a tile asks the memory for: words further on in the panel it reads, the same depths of the
// next tile, after the last tile the next depths of the panel; or further rows, when its left-hand side jumps.
INLINE void look_ahead(reading *r, const grpo_gemm *g, int64_t panel, int64_t next_k, int mr, int single, int last_tile)
{
	r->soon = (const char *)(r->a + mr * g->inner);
	r->soon_step = 4 * mr;
	if (single) {
		r->soon = r->b + STEPS_AHEAD * r->b_step;
		r->soon_step = r->b_step;
	} else if (g->a_kind == A_COLS) {
		r->soon = (const char *)(r->a + ROWS_AHEAD * r->a_step);
		r->soon_step = 4 * r->a_step;
	} else if (last_tile && g->b_kind == B_OUTPUTS) {
		r->soon_step = g->m.dtype == GRPO_BF16 ? 2 * PANEL : 4 * PANEL;
		r->soon = panel_at(&g->m, g->m_offset / PANEL + panel) + next_k * r->soon_step;
	}
}

// All row tiles [tile0, tile1) times one panel of columns, into out, where row tile0 meets the panel.
static void gemm_panel(const grpo_gemm *g, float *scratch, int64_t tile0, int64_t tile1, int64_t panel, float *out)
{
	float *block = scratch, *sums = scratch + DEPTH * PANEL;
	int valid = min64(g->cols - panel * PANEL, PANEL), single = tile1 - tile0 == 1;
	int a_form = g->a_kind == A_ROWS ? SPREAD : TOGETHER, b_form = valid <= PANEL / 2 ? NARROW : WIDE;
	if (g->b_kind == B_OUTPUTS && g->m.dtype == GRPO_BF16 && single)
		b_form = WORDS;
	int64_t row0 = tile_start(g->rows, g->row_tiles, tile0);
	for (int64_t k = 0; k < g->inner; k += DEPTH) {
		reading r = {.depth = min64(DEPTH, g->inner - k), .first = k == 0};
		r.last = k + r.depth == g->inner;
		r.b = right_side(g, panel, k, r.depth, single, block, &r.b_step);
		for (int64_t i = tile0; i < tile1; i++) {
			int64_t row = tile_start(g->rows, g->row_tiles, i);
			int mr = tile_start(g->rows, g->row_tiles, i + 1) - row;
			target t = {
				.out = out + (row - row0) * g->out_stride,
				.stride = g->out_stride,
				.bias = g->bias ? g->bias + panel * PANEL : NULL,
				.row_scale = g->row_scale ? g->row_scale + row : NULL,
				.alpha = g->alpha,
				.accumulate = g->accumulate,
			};
			left_side(&r, g, row, mr, k);
			look_ahead(&r, g, panel, k + r.depth, mr, single, i + 1 == tile1);
			tile_function *f = tile_functions[mr][a_form][b_form];
			float *s = sums + (row - row0) * PANEL;
			if (valid == PANEL)
				f(&r, s, &t);
			else
				edge_tile(f, mr, valid, &r, s, &t);
		}
	}
}

static void gemm(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_gemm *g = args;
	int64_t panels = (g->cols + PANEL - 1) / PANEL;
	for (int64_t t = from; t < to; t++) {
		int64_t tile0 = t / panels * g->block_tiles, panel = t % panels;
		float *out = g->out + tile_start(g->rows, g->row_tiles, tile0) * g->out_stride + panel * PANEL;
		gemm_panel(g, scratch, tile0, min64(tile0 + g->block_tiles, g->row_tiles), panel, out);
	}
}
