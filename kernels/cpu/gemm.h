// The matrix product (GEMM) behind every operation on matrices: packing, cache blocking, and a micro-kernel (tile.h).
//
// A task is some row tiles times one panel of 32 columns. The right-hand side is converted once for each block of DEPTH
// steps of the reduction and read by all row tiles of the task, so that it stays in the first-level cache; between two
// blocks the sums are kept in scratch, in float32, which changes no bit. Weights that few tiles read are not converted
// first, and their blocks are deeper, sized for the second-level cache.

// How many steps ahead a product of few rows prefetches weights: enough to hide the latency of memory, which the
// hardware's prefetchers do not.
enum { STEPS_AHEAD = 48 };

// How many tiles, the last ones of a depth, share the prefetch of the panel's next depth: a single one would wait for the memory.
enum { TILES_AHEAD = 8 };

// For rows of a buffer: how many of them are read in all panels of a task before the next, and how many panels ahead is prefetched.
enum { ROWS_DEPTH = 32, PANELS_AHEAD = 2 };

// Row tiles have nearly equal heights; tile i starts at this row.
INLINE int64_t tile_start(int64_t rows, int64_t tiles, int64_t i)
{
	int64_t base = rows / tiles, rest = rows % tiles;
	return i * base + min64(i, rest);
}

// The address in out of a row, at a panel.
INLINE float *out_of(const grpo_gemm *g, float *out, int64_t row, int64_t panels)
{
	if (g->out_across)
		return out + panels * PANEL * g->out_stride + row;
	return out + row * g->out_stride + panels * (g->out_apart ? g->out_apart : PANEL);
}

// A tile at the right edge, with fewer than 32 columns, or whose output is transposed, works on a padded copy.
static void copied_tile(tile_function *f, int mr, int valid, int across, const tile_inputs *r, float *sums, const target *t)
{
	float copy[MR * PANEL] = {0}, bias[PANEL] = {0};
	const int64_t down = across ? 1 : t->stride, right = across ? t->stride : 1;
	target c = *t;
	c.out = copy;
	c.stride = PANEL;
	if (t->bias && r->last) {
		memcpy(bias, t->bias, valid * 4);
		c.bias = bias;
	}
	for (int j = 0; t->accumulate && r->last && j < valid; j++)
		for (int i = 0; i < mr; i++) copy[i * PANEL + j] = t->out[i * down + j * right];
	f(r, sums, &c);
	for (int j = 0; r->last && j < valid; j++)
		for (int i = 0; i < mr; i++) t->out[i * down + j * right] = copy[i * PANEL + j];
}

// The left-hand side of the tile of mr rows from row on, at depth k; a step has `links` numbers of a row, or pairs.
INLINE void left_side(tile_inputs *r, const grpo_gemm *g, int64_t row, int mr, int64_t k, int links)
{
	r->a_apart = 1;
	if (g->a_kind == A_PACKED) {
		r->a = g->paired ? g->a + (row * g->inner + k * mr) / 2 : g->a + row * g->inner + k * mr;
		r->a_step = links * mr;
	} else if (g->a_kind == A_COLS) {
		r->a = g->a + k * g->a_stride + row;
		r->a_step = g->a_stride;
	} else {
		r->a = g->a + row * g->a_stride + k;
		r->a_step = links;
		r->a_apart = g->a_stride;
	}
}

// Chooses what tile i of a task prefetches: if it streams weights from memory, weights further on in its panel; otherwise the same depths
// of the next tile, if that is packed, and for the last few tiles their part of the panel's next depths; or further rows, if its
// left-hand side has a stride.
INLINE void choose_prefetch(tile_inputs *r, const grpo_gemm *g, int64_t panel, int64_t next_k, int mr, int form, int columns, int stream,
                            int64_t i, int64_t tiles)
{
	int64_t together = stream ? 1 : min64(tiles, TILES_AHEAD), part = i - (tiles - together);
	r->prefetch = (const char *)(r->a + mr * (g->paired ? g->inner / 2 : g->inner));
	r->prefetch_step = g->a_kind == A_ROWS ? 0 : 4 * r->a_step;
	if (stream && i == 0) {
		r->prefetch_step = step_bytes(form);
		r->prefetch = r->b + STEPS_AHEAD * r->prefetch_step;
	} else if (g->a_kind == A_COLS) {
		r->prefetch = (const char *)(r->a + ROWS_AHEAD * r->a_step);
		r->prefetch_step = 4 * r->a_step;
	} else if (part >= 0 && g->b_kind == B_OUTPUTS) {
		int64_t step = (column_at(&g->m, 0, GROUP) - column_at(&g->m, 0, 0)) / GROUP * columns;
		r->prefetch = column_at(&g->m, g->m_offset / PANEL + panel, next_k) + step * r->steps / together * part;
		r->prefetch_step = step / together;
	}
}

// Row tiles [tile0, tile1) times one panel of columns, into out, the address of their first element.
static void gemm_panel(const grpo_gemm *g, float *scratch, int64_t tile0, int64_t tile1, int64_t panel, float *out)
{
	float *block = scratch, *sums = scratch + DEPTH * PANEL;
	int valid = min64(g->cols - panel * PANEL, PANEL);
	int64_t row0 = tile_start(g->rows, g->row_tiles, tile0), height = tile_start(g->rows, g->row_tiles, tile0 + 1) - row0;
	int a_form = g->a_kind == A_ROWS ? STRIDED : PACKED, b_form = right_form(g, tile1 - tile0, height, valid);
	int64_t most = right_depth(g, tile1 - tile0, b_form);
	// Columns of one step; and whether the weights are read from memory by the first tile rather than by a conversion.
	int columns = b_form == WIDENED || b_form == IN_PAIRS ? 2 : b_form == WIDE || b_form == NARROW ? 1 : GROUP;
	int compressed = columns == GROUP, stream = compressed || (g->b_kind == B_OUTPUTS && most == FEW_DEPTH);
	for (int64_t k = 0; k < g->inner; k += most) {
		int64_t depth = min64(most, g->inner - k);
		tile_inputs r = {.first = k == 0, .last = k + depth == g->inner};
		right_side(&r, g, b_form, panel, k, depth, block);
		if (compressed && tile1 - tile0 > 1)
			r.keep = (char *)block;
		int form = b_form, step = columns;
		for (int64_t i = tile0; i < tile1; i++) {
			if (compressed && i == tile0 + 1) { // from now on read what the first tile has decompressed
				form = g->paired ? IN_PAIRS : WIDENED;
				step = 2;
				r.b = (const char *)block;
				r.steps = depth / step;
			}
			int64_t row = tile_start(g->rows, g->row_tiles, i);
			int mr = tile_start(g->rows, g->row_tiles, i + 1) - row;
			target t = {
				.out = out_of(g, out, row - row0, 0),
				.stride = g->out_stride,
				.bias = g->bias ? g->bias + panel * PANEL : NULL,
				.row_scale = g->row_scale ? g->row_scale + row : NULL,
				.alpha = g->alpha,
				.accumulate = g->accumulate,
			};
			left_side(&r, g, row, mr, k, g->paired ? step / 2 : step);
			choose_prefetch(&r, g, panel, k + depth, mr, form, step, stream, i - tile0, tile1 - tile0);
			tile_function *f = function_of(mr, a_form, form);
			float *s = sums + (row - row0) * PANEL;
			if (valid == PANEL && !g->out_across)
				f(&r, s, &t);
			else
				copied_tile(f, mr, valid, g->out_across, &r, s, &t);
		}
	}
}

// All row tiles, at one depth, times a panel of a buffer, which is read in place; prefetch is what to prefetch of it. The sums
// [rows][32] are kept for the next depth.
static void gemm_rows_panel(const grpo_gemm *g, float *block, float *sums, int64_t panel, int64_t k, const float *prefetch)
{
	int64_t depth = min64(ROWS_DEPTH, g->inner - k);
	int valid = min64(g->cols - panel * PANEL, PANEL);
	tile_inputs r = {.first = k == 0, .last = k + depth == g->inner};
	right_side(&r, g, WIDE, panel, k, valid == PANEL ? 0 : depth, block);
	r.steps = depth;
	if (valid == PANEL) {
		r.b = (const char *)(g->b + k * g->b_stride + panel * PANEL);
		r.b_step = 4 * g->b_stride;
	}
	for (int64_t i = 0; i < g->row_tiles; i++) {
		int64_t row = tile_start(g->rows, g->row_tiles, i);
		int mr = tile_start(g->rows, g->row_tiles, i + 1) - row;
		target t = {.out = out_of(g, g->out, row, panel), .stride = g->out_stride, .alpha = g->alpha, .accumulate = g->accumulate};
		left_side(&r, g, row, mr, k, 1);
		r.prefetch = (const char *)(prefetch + i % 2 * (PANEL / 2));
		r.prefetch_step = 4 * g->b_stride;
		tile_function *f = function_of(mr, PACKED, WIDE);
		if (valid == PANEL && !g->out_across)
			f(&r, sums + row * PANEL, &t);
		else
			copied_tile(f, mr, valid, g->out_across, &r, sums + row * PANEL, &t);
	}
}

// Panels [panel0, panel1) of a buffer. ROWS_DEPTH rows are read in all of them before the next ones, so that memory is read in long pieces.
static void gemm_rows(const grpo_gemm *g, float *scratch, int64_t panel0, int64_t panel1)
{
	float *block = scratch, *sums = scratch + DEPTH * PANEL;
	for (int64_t k = 0; k < g->inner; k += ROWS_DEPTH)
		for (int64_t p = panel0; p < panel1; p++) {
			int64_t ahead = p + PANELS_AHEAD, over = ahead >= panel1;
			const float *prefetch = g->b + (k + over * ROWS_DEPTH) * g->b_stride + (ahead - over * (panel1 - panel0)) * PANEL;
			gemm_rows_panel(g, block, sums + (p - panel0) * g->rows * PANEL, p, k, prefetch);
		}
}

static void gemm(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_gemm *g = args;
	int64_t panels = (g->cols + PANEL - 1) / PANEL;
	for (int64_t t = from; t < to && g->block_panels; t++)
		gemm_rows(g, scratch, t * g->block_panels, min64((t + 1) * g->block_panels, panels));
	if (g->block_panels)
		return;
	for (int64_t t = from; t < to; t++) {
		int64_t tile0 = t / panels * g->block_tiles, panel = t % panels;
		float *out = out_of(g, g->out, tile_start(g->rows, g->row_tiles, tile0), panel);
		gemm_panel(g, scratch, tile0, min64(tile0 + g->block_tiles, g->row_tiles), panel, out);
	}
}
