// Products in integers for several rows: a panel is decoded to pairs, a few chunks at a time, and a register tile of up to MR rows by
// NV vectors accumulates the sums of a chunk.

// Decodes columns [k, k+depth) of a panel to pairs of integers, for 32 rows each; k and depth are multiples of CHUNK.
#if VL == 16
static void decode_integers(char *block, const grpo_matrix *m, int64_t panel, int64_t k, int64_t depth, const int16_t *values)
{
	vi twice;
	memcpy(&twice, values, 32);
	memcpy((char *)&twice + 32, values, 32);
	const row_tables same = {twice, twice}, t[4] = {same, same, same, same};
	const char *words = column_at(m, panel, k);
	for (int64_t g = 0; g < depth / CODES; g++, words += CODE_BYTES) {
		UNROLL for (int line = 0; line < CODE_BYTES / 64; line++) __builtin_prefetch(words + DECOMPRESS_AHEAD + 64 * line);
		UNROLL for (int i = 0; i < 4; i++, block += 4 * PAIR_BYTES)
			UNROLL for (int half = 0; half < 2; half++)
			{
				vi pairs[4];
				decode_sixteen(pairs, t, words + half * CODE_BYTES / 2, i);
				UNROLL for (int b = 0; b < 4; b++) *(vi_any *)(block + b * PAIR_BYTES + half * PAIR_BYTES / 2) = pairs[b];
			}
	}
}
#elif VL == 8
// The tables of the lower and the upper bytes of the values, in both halves.
INLINE byte_tables integer_tables(const int16_t *values)
{
	byte_tables t;
	char low[32], high[32];
	for (int i = 0; i < 32; i++) {
		low[i] = values[i % 16];
		high[i] = values[i % 16] >> 8;
	}
	UNROLL for (int i = 0; i < 4; i++)
	{
		t.low[i] = loadi(low);
		t.high[i] = loadi(high);
	}
	return t;
}

static void decode_integers(char *block, const grpo_matrix *m, int64_t panel, int64_t k, int64_t depth, const int16_t *values)
{
	const char *units = column_at(m, panel, k);
	const byte_tables t = integer_tables(values);
	for (int64_t g = 0; g < depth / CODES; g++, units += CODE_BYTES, block += CODES / 2 * PAIR_BYTES)
		for (int q = 0; q < PANEL / 8; q++) {
			prefetch_lines(units + 128 * q + DECOMPRESS_AHEAD, 2);
			UNROLL for (int half = 0; half < 2; half++)
			{
				vi pairs[8];
				decode_eight(pairs, units + 128 * q, &t, half);
				UNROLL for (int i = 0; i < 8; i++) *(vi_any *)(block + (8 * half + i) * PAIR_BYTES + 32 * q) = pairs[i];
			}
		}
}
#else
static void decode_integers(char *block, const grpo_matrix *m, int64_t panel, int64_t k, int64_t depth, const int16_t *values)
{
	for (int64_t end = k + depth; k < end; k += CODES, block += CODES / 2 * PAIR_BYTES)
		for (int four = 0; four < PANEL / 4; four++)
			for (int b = 0; b < 4; b++) {
				vi w = loadi((const char *)column_at(m, panel, k) + four * 64 + 16 * b), pairs;
				for (int i = 0; i < 4; i++) {
					UNROLL for (int r = 0; r < 4; r++)
						pairs[r] = (uint32_t)values[w[r] >> (16 + 4 * i) & 15] << 16 | (uint16_t)values[w[r] >> 4 * i & 15];
					*(vi_any *)(block + (4 * i + b) * PAIR_BYTES + 16 * four) = pairs;
				}
			}
}
#endif

// The operands of a tile: whole chunks of pairs, of mr rows and of a decoded panel; their scales; and the sums that it adds to.
typedef struct {
	const int32_t *a;
	const char *prefetch; // the pairs of the next tile
	const float *a_scales;
	int64_t a_scales_apart;
	const char *b;
	const float *b_scales; // of the first chunk; those of the next segment follow after PANEL floats
	int64_t b_segment;     // the length of a segment in chunks
	int64_t b_phase;       // the position of the first chunk in its segment
	int64_t chunks;
	float *sums; // [mr][32]
} integer_tile_inputs;

INLINE void integer_tile(const int mr, const integer_tile_inputs *r, const int dot)
{
	const int64_t chunks = r->chunks, segment = r->b_segment, a_scales_apart = r->a_scales_apart;
	float *const sums = r->sums;
	for (int s = 0; s < SUBTILES; s++) {
		const int32_t *a = r->a;
		const char *b = r->b + 4 * column_of(s, 0, NV, 0), *prefetch = r->prefetch;
		const float *a_scales = r->a_scales, *b_scales = r->b_scales + column_of(s, 0, NV, 0);
		int64_t phase = r->b_phase;
		for (int64_t c = 0; c < chunks; c++, a_scales++) {
			vi acc[MR][NV] = {{{0}}};
			TWO_STEPS
			for (int k = 0; k < CHUNK / 2; k++, b += PAIR_BYTES, a += mr, prefetch += 4 * mr / SUBTILES) {
				vi w[NV];
				__builtin_prefetch(prefetch);
				UNROLL for (int v = 0; v < NV; v++) w[v] = loadi(b + 4 * VL * v);
				UNROLL for (int i = 0; i < mr; i++)
				{
					vi x = (vi){0} + a[i];
					UNROLL for (int v = 0; v < NV; v++) acc[i][v] = add_integer_pairs(acc[i][v], x, w[v], dot);
				}
			}
			UNROLL for (int i = 0; i < mr; i++)
				UNROLL for (int v = 0; v < NV; v++)
				{
					float *sum = sums + i * PANEL + column_of(s, v, NV, 0);
					store(sum, add_chunk(load(sum), acc[i][v], a_scales[i * a_scales_apart], load(b_scales + VL * v)));
				}
			if (++phase == segment) {
				phase = 0;
				b_scales += PANEL;
			}
		}
	}
}

typedef void integer_tile_function(const integer_tile_inputs *r, int dot);
#define INTEGER_TILE(mr)                                             \
	static void integer_tile_##mr(const integer_tile_inputs *r, int dot)   \
	{                                                              \
		if (dot)                                                   \
			integer_tile(mr, r, 1);                                  \
		else                                                       \
			integer_tile(mr, r, 0);                                  \
	}
#define INTEGER_ENTRY(mr) integer_tile_##mr,
LOW(INTEGER_TILE) HIGH(INTEGER_TILE)
static integer_tile_function *const integer_tile_functions[MR + 1] = {NULL, LOW(INTEGER_ENTRY) HIGH(INTEGER_ENTRY)};

// Writes the finished sums of a panel for `rows` rows from `row` on.
static void write_integer_sums(const grpo_integer_product *g, const float *sums, int64_t row, int64_t rows, int64_t panel)
{
	int valid = min64(g->m.rows - panel * PANEL, PANEL);
	float bias[PANEL] = {0}, padded[PANEL] = {0};
	if (g->bias)
		memcpy(bias, g->bias + panel * PANEL, valid * 4);
	for (int64_t i = 0; i < rows; i++, sums += PANEL) {
		float *out = g->out + (row + i) * g->out_stride + panel * PANEL;
		target t = {.out = valid == PANEL ? out : padded, .bias = g->bias ? bias : NULL, .alpha = g->alpha, .accumulate = g->accumulate};
		if (valid < PANEL)
			memcpy(padded, out, valid * 4);
		UNROLL for (int c = 0; c < PANEL; c += VL) store(t.out + c, epilogue(load(sums + c), &t, 0, c));
		if (valid < PANEL)
			memcpy(out, padded, valid * 4);
	}
}

// Row tiles [tile0, tile1) times one panel.
static void integer_panel(const grpo_integer_product *g, float *scratch, int64_t tile0, int64_t tile1, int64_t panel, const int16_t *values)
{
	char *block = (char *)scratch;
	float *sums = scratch + INTEGER_DEPTH / 2 * PANEL;
	int64_t cols = g->m.cols, chunks = cols / CHUNK, segment = g->m.segment / CHUNK;
	int64_t row0 = tile_start(g->rows, g->row_tiles, tile0), row1 = tile_start(g->rows, g->row_tiles, tile1);
	memset(sums, 0, (row1 - row0) * PANEL * 4);
	for (int64_t k = 0; k < cols; k += INTEGER_DEPTH) {
		int64_t depth = min64(INTEGER_DEPTH, cols - k), chunk = k / CHUNK;
		decode_integers(block, &g->m, panel, k, depth, values);
		for (int64_t i = tile0; i < tile1; i++) {
			int64_t row = tile_start(g->rows, g->row_tiles, i), mr = tile_start(g->rows, g->row_tiles, i + 1) - row;
			integer_tile_inputs r = {
				.a = g->pairs + row * (cols / 2) + k / 2 * mr,
				.a_scales = g->scales + row * chunks + chunk,
				.a_scales_apart = chunks,
				.b = block,
				.b_scales = scales_at(&g->m, panel, k),
				.b_segment = segment,
				.b_phase = chunk % segment,
				.chunks = depth / CHUNK,
				.sums = sums + (row - row0) * PANEL,
			};
			r.prefetch = (const char *)(r.a + mr * (cols / 2));
			integer_tile_functions[mr](&r, g->dot);
		}
	}
	write_integer_sums(g, sums, row0, row1 - row0, panel);
}
