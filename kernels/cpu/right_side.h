// The right-hand side of a product: 32 columns, at most DEPTH deep, as the register tiles read it.

// A right-hand side that at most FEW_TILES tiles read is not converted first, which would wait for the memory; it is read once, in deep
// blocks. Weights in pairs of bf16 are then widened in registers. With only 16 registers a tile of pairs runs at two thirds of the speed
// of one of floats, so there WIDENED_ROWS is small.
enum { FEW_TILES = 9, FEW_DEPTH = 1024, WIDENED_ROWS = VL == 8 ? 8 : FEW_TILES * MR };

// How many rows of a buffer ahead are prefetched: few, because they may share one set of the cache.
enum { ROWS_AHEAD = 16 };

// Widens pairs of a bf16 panel to floats, 32 to a column.
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

// A panel whose columns are not whole vectors is transposed from a padded copy. Returns the address to read;
// results for the columns beyond are not used.
INLINE const char *whole_vectors(char *padded, const char *src, int count, int width, int bytes)
{
	if (count == width)
		return src;
	memcpy(padded, src, count * bytes);
	memset(padded + count * bytes, 0, (width - count) * bytes);
	return padded;
}

// block[n][32] = rows n of one panel of floats at its columns k … k+31, of which valid exist: 32 × 32 numbers transposed.
static void transpose_floats(float *block, const grpo_matrix *m, int64_t panel, int64_t k, int valid)
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

// The same from count pairs of bf16.
INLINE void transpose_pairs(float *block, const char *src, int count)
{
	char padded[PANEL / 2 * PAIR_BYTES];
	int width = (count + VL - 1) / VL * VL;
	src = whole_vectors(padded, src, count, width, PAIR_BYTES);
	for (int c = 0; c < PANEL; c += VL)
		for (int j = 0; j < width; j += VL) {
			vi r[VL];
			UNROLL for (int i = 0; i < VL; i++) r[i] = loadi(src + (j + i) * PAIR_BYTES + 4 * c);
			transpose(r);
			UNROLL for (int i = 0; i < VL; i++) store_zipped(block + (c + i) * PANEL + 2 * j, (vi)widen_first(r[i]), (vi)widen_second(r[i]));
		}
}

// The same into pairs: block[n/2][32] has rows n and n+1 together. First each pair of lanes is rearranged into pairs of two rows; then
// pairs of lanes are transposed.
INLINE void cross_pairs(char *block, const char *src, int count)
{
	enum { TWOS = VL / 2 };
	char padded[PANEL / 2 * PAIR_BYTES];
	int width = (count + TWOS - 1) / TWOS * TWOS;
	src = whole_vectors(padded, src, count, width, PAIR_BYTES);
	for (int c = 0; c < PANEL; c += VL)
		for (int j = 0; j < width; j += TWOS) {
			vq r[TWOS], z[TWOS];
			UNROLL for (int i = 0; i < TWOS; i++) r[i] = (vq)CROSS_HALVES((vh)loadi(src + (j + i) * PAIR_BYTES + 4 * c));
			UNROLL for (int stage = 1; stage < TWOS; stage *= 2)
			{
				UNROLL for (int i = 0; i < TWOS / 2; i++)
				{
					z[2 * i] = ZIP_PAIRS_LOW(r[i], r[i + TWOS / 2]);
					z[2 * i + 1] = ZIP_PAIRS_HIGH(r[i], r[i + TWOS / 2]);
				}
				UNROLL for (int i = 0; i < TWOS; i++) r[i] = z[i];
			}
			UNROLL for (int i = 0; i < TWOS; i++) *(vi_any *)(block + (c / 2 + i) * PAIR_BYTES + 8 * j) = (vi)r[i];
		}
}

// Whether the panels of a matrix can be read without decoding.
INLINE int is_plain(const grpo_matrix *m) { return !is_compressed(m) && !is_quantised(m); }

// Decodes columns [k, k+depth) of a compressed or quantised panel into pairs, as in a plain one.
static void unpack_pairs(char *block, const grpo_matrix *m, int64_t panel, int64_t k, int64_t depth)
{
	if (is_quantised(m))
		decode_codes(block, m, panel, k, depth);
	else
		decompress_pairs(block, m, panel, k / GROUP, (k + depth) / GROUP);
}

static void transpose_panel(float *block, const grpo_matrix *m, int64_t panel, int64_t k, int valid, int in_pairs)
{
	if (m->dtype != GRPO_BF16) {
		transpose_floats(block, m, panel, k, valid);
		return;
	}
	char pairs[PANEL / 2 * PAIR_BYTES];
	const char *src = pairs;
	if (is_plain(m))
		src = panel_at(m, panel) + k / 2 * PAIR_BYTES;
	else
		unpack_pairs(pairs, m, panel, k, valid);
	if (in_pairs)
		cross_pairs((char *)block, src, pairs_of(valid));
	else
		transpose_pairs(block, src, pairs_of(valid));
}

// Prefetches what transpose_panel will read at the next depth, which is too far away for the hardware's prefetchers.
INLINE void fetch_panel(const grpo_matrix *m, int64_t panel, int64_t k, int valid)
{
	const char *p = column_at(m, panel, k), *end = column_at(m, panel, k + valid);
	for (; p < end; p += 64) __builtin_prefetch(p);
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

// The form in which tiles of at most that height read a panel of columns fastest.
INLINE int right_form(const grpo_gemm *g, int64_t tiles, int height, int valid)
{
	if (g->b_kind == B_OUTPUTS && g->m.dtype == GRPO_BF16) {
		if (is_compressed(&g->m) && tiles <= LOW_TILES && height <= LOW_ROWS)
			return g->paired ? COMPRESSED_IN_PAIRS : COMPRESSED_WIDENED;
		if (takes_codes(&g->m, tiles, height))
			return g->paired ? CODES_IN_PAIRS : CODES_WIDENED;
		if (!g->paired && tiles * height <= WIDENED_ROWS)
			return WIDENED;
	}
	return g->paired ? IN_PAIRS : valid <= PANEL / 2 ? NARROW : WIDE;
}

// How deep a block may be: a converted one must fit into scratch and the first-level cache, one that is read in place is
// read only once.
INLINE int64_t right_depth(const grpo_gemm *g, int64_t tiles, int form)
{
	int compressed = form == COMPRESSED_WIDENED || form == COMPRESSED_IN_PAIRS;
	if (form == CODES_WIDENED || form == CODES_IN_PAIRS)
		return FEW_DEPTH;
	int floats = form == WIDE || form == NARROW;
	int converted = is_quantised(&g->m) || (is_compressed(&g->m) && (!compressed || tiles > 1)) || (floats && g->m.dtype == GRPO_BF16);
	if (g->b_kind == B_OUTPUTS && !converted && tiles <= FEW_TILES)
		return FEW_DEPTH;
	return floats ? DEPTH : 2 * DEPTH;
}

// Weights of a panel of outputs at depths [k, k+depth).
INLINE void read_outputs(tile_inputs *r, const grpo_matrix *m, int form, int64_t panel, int64_t k, int64_t depth, float *block)
{
	r->b = column_at(m, panel, k);
	if (form == COMPRESSED_WIDENED || form == COMPRESSED_IN_PAIRS) {
		r->steps = depth / GROUP;
		r->base = m->bases[panel] * 0x00800080;
		r->patch = patches_from(m, panel, k / GROUP);
		r->group = k / GROUP;
		return;
	}
	if (form == CODES_WIDENED || form == CODES_IN_PAIRS) {
		r->codes = m;
		r->panel = panel;
		r->k = k;
		r->depth = depth;
		return;
	}
	if (!is_plain(m)) {
		char *pairs = (char *)block;
		if (form == WIDE || form == NARROW)
			pairs += DEPTH / 2 * PAIR_BYTES; // at the end of the block, so that widening does not overwrite pairs before it has read them
		unpack_pairs(pairs, m, panel, k, depth);
		r->b = pairs;
	}
	if (m->dtype == GRPO_BF16 && (form == WIDE || form == NARROW)) {
		widen_panel(block, r->b, depth / 2);
		r->b = (const char *)block;
	} else if (m->dtype == GRPO_BF16) {
		r->steps = depth / 2;
	}
}

// The right-hand side of one panel of columns at depths [k, k+depth): its address, its stride, and the number of steps.
static void right_side(tile_inputs *r, const grpo_gemm *g, int form, int64_t panel, int64_t k, int64_t depth, float *block)
{
	int64_t c0 = panel * PANEL;
	int valid = min64(g->cols - c0, PANEL);
	r->b = (const char *)block;
	r->b_step = step_bytes(WIDE);
	r->steps = g->paired ? depth / 2 : depth;
	if (g->b_kind == B_OUTPUTS) {
		read_outputs(r, &g->m, form, g->m_offset / PANEL + panel, k, depth, block);
	} else if (g->b_kind == B_INPUTS) {
		int row_floats = g->paired ? PANEL / 2 : PANEL;
		for (int64_t n = 0; n < depth; n += PANEL) {
			int64_t p = (g->m_offset + k + n) / PANEL;
			fetch_panel(&g->m, p + DEPTH / PANEL, c0, valid);
			transpose_panel(block + n * row_floats, &g->m, p, c0, valid, g->paired);
		}
	} else {
		copy_rows(block, g->b + k * g->b_stride + c0, g->b_stride, depth, valid);
	}
}
