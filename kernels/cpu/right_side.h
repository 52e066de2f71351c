// The right-hand side of a product: 32 columns, at most DEPTH deep, as the register tiles read it.

// Where at most so many tiles read it, weights stay words of bf16 and are widened in the registers: less to
// read, and nothing to write first while the memory is waited for.
enum { FEW_TILES = 9, FEW_DEPTH = 1024 };

// How far ahead rows of a buffer are asked for. Not far, for they may share one set of the cache.
enum { ROWS_AHEAD = 16 };

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

// The right-hand side of one panel of columns at depths [k, k+depth): where it is, and how far apart.
static const char *right_side(const grpo_gemm *g, int64_t panel, int64_t k, int64_t depth, int few,
                              float *block, int64_t *step)
{
	int64_t c0 = panel * PANEL;
	int valid = min64(g->cols - c0, PANEL);
	*step = PANEL * 4;
	if (g->b_kind == B_OUTPUTS) {
		const char *p = panel_at(&g->m, g->m_offset / PANEL + panel);
		if (g->m.dtype != GRPO_BF16)
			return p + k * PANEL * 4;
		if (few) {
			*step = PANEL * 2;
			return p + k * PANEL * 2;
		}
		widen_panel(block, p + k * PANEL * 2, depth);
	} else if (g->b_kind == B_INPUTS) {
		for (int64_t n = 0; n < depth; n += PANEL) {
			int64_t p = (g->m_offset + k + n) / PANEL;
			fetch_panel(&g->m, p + DEPTH / PANEL, c0, valid);
			turn_panel(block + n * PANEL, &g->m, p, c0, valid);
		}
	} else {
		copy_rows(block, g->b + k * g->b_stride + c0, g->b_stride, depth, valid);
	}
	return (const char *)block;
}
