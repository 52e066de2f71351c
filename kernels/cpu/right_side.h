// The right-hand side of a product: 32 columns, at most DEPTH deep, as the register tiles read it.

// Where at most so many tiles read it, weights stay pairs of bf16 and are widened in the registers: less to
// read, and nothing to write first while the memory is waited for.
enum { FEW_TILES = 9, FEW_DEPTH = 1024 };

// How far ahead rows of a buffer are asked for. Not far, for they may share one set of the cache.
enum { ROWS_AHEAD = 16 };

// So many pairs of a bf16 panel as floats, 32 to a column.
static void widen_panel(float *block, const char *pairs, int64_t count)
{
	for (int64_t j = 0; j < count; j++)
		UNROLL for (int c = 0; c < PANEL; c += VL)
		{
			vi w = loadi(pairs + j * PAIR_BYTES + 4 * c);
			store(block + 2 * j * PANEL + c, widen_first(w));
			store(block + (2 * j + 1) * PANEL + c, widen_second(w));
		}
}

// A panel of which fewer columns exist than vectors are wide is turned from a padded copy. Gives where it lies;
// the columns beyond are not looked at.
INLINE const char *whole_vectors(char *padded, const char *src, int count, int width, int bytes)
{
	if (count == width)
		return src;
	memcpy(padded, src, count * bytes);
	memset(padded + count * bytes, 0, (width - count) * bytes);
	return padded;
}

// block[n][32] = rows n of one panel of floats at its columns k … k+31, of which valid exist: 32 × 32 numbers turned.
static void turn_floats(float *block, const grpo_matrix *m, int64_t panel, int64_t k, int valid)
{
	enum { COLUMN = PANEL * 4 };
	char padded[PANEL * COLUMN];
	int width = (valid + VL - 1) / VL * VL;
	const char *src = whole_vectors(padded, panel_at(m, panel) + k * COLUMN, valid, width, COLUMN);
	for (int c = 0; c < PANEL; c += VL)
		for (int k0 = 0; k0 < width; k0 += VL) {
			vi r[VL];
			UNROLL for (int i = 0; i < VL; i++) r[i] = loadi(src + (k0 + i) * COLUMN + 4 * c);
			transpose(r);
			UNROLL for (int i = 0; i < VL; i++) store(block + (c + i) * PANEL + k0, (vf)r[i]);
		}
}

INLINE void store_zipped(float *to, vi even, vi odd)
{
	store(to, (vf)ZIP_LOW(even, odd));
	store(to + VL, (vf)ZIP_HIGH(even, odd));
}

// The same from a panel of bf16; in pairs, block[n/2][32] has rows n and n+1 together.
INLINE void turn_pairs(float *block, const grpo_matrix *m, int64_t panel, int64_t k, int valid, int in_pairs)
{
	char padded[PANEL / 2 * PAIR_BYTES];
	int count = pairs_of(valid), width = (count + VL - 1) / VL * VL;
	const char *src = whole_vectors(padded, panel_at(m, panel) + k / 2 * PAIR_BYTES, count, width, PAIR_BYTES);
	for (int c = 0; c < PANEL; c += VL)
		for (int j = 0; j < width; j += VL) {
			vi r[VL];
			UNROLL for (int i = 0; i < VL; i++) r[i] = loadi(src + (j + i) * PAIR_BYTES + 4 * c);
			transpose(r);
			UNROLL for (int i = 0; i < VL; i += 2)
			{
				vi even = (vi)widen_first(r[i]), odd = (vi)widen_second(r[i]);
				vi even1 = (vi)widen_first(r[i + 1]), odd1 = (vi)widen_second(r[i + 1]);
				if (in_pairs) {
					store_zipped(block + (c + i) / 2 * PANEL + 2 * j, paired(even, even1), paired(odd, odd1));
				} else {
					store_zipped(block + (c + i) * PANEL + 2 * j, even, odd);
					store_zipped(block + (c + i + 1) * PANEL + 2 * j, even1, odd1);
				}
			}
		}
}

static void turn_panel(float *block, const grpo_matrix *m, int64_t panel, int64_t k, int valid, int in_pairs)
{
	if (m->dtype != GRPO_BF16)
		turn_floats(block, m, panel, k, valid);
	else if (in_pairs)
		turn_pairs(block, m, panel, k, valid, 1);
	else
		turn_pairs(block, m, panel, k, valid, 0);
}

// Asks for what turn_panel will read at the next depth. It lies far from what is read now, where no hardware looks.
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

// The right-hand side of one panel of columns at depths [k, k+depth): where it is, how far apart, and in how many steps.
static void right_side(reading *r, const grpo_gemm *g, int64_t panel, int64_t k, int64_t depth, int few, float *block)
{
	int64_t c0 = panel * PANEL;
	int valid = min64(g->cols - c0, PANEL);
	r->b = (const char *)block;
	r->b_step = PANEL * 4;
	r->steps = g->paired ? depth / 2 : depth;
	if (g->b_kind == B_OUTPUTS) {
		const char *p = panel_at(&g->m, g->m_offset / PANEL + panel);
		if (g->m.dtype != GRPO_BF16) {
			r->b = p + k * PANEL * 4;
		} else if (g->paired || few) {
			r->b = p + k / 2 * PAIR_BYTES;
			r->steps = depth / 2;
		} else {
			widen_panel(block, p + k / 2 * PAIR_BYTES, depth / 2);
		}
	} else if (g->b_kind == B_INPUTS) {
		int row_floats = g->paired ? PANEL / 2 : PANEL;
		for (int64_t n = 0; n < depth; n += PANEL) {
			int64_t p = (g->m_offset + k + n) / PANEL;
			fetch_panel(&g->m, p + DEPTH / PANEL, c0, valid);
			turn_panel(block + n * row_floats, &g->m, p, c0, valid, g->paired);
		}
	} else {
		copy_rows(block, g->b + k * g->b_stride + c0, g->b_stride, depth, valid);
	}
}
