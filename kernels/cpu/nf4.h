// A matrix of bf16 in four bits a weight: a code names one of 16 values, which is multiplied by the scale of the weight's
// block and rounded to bf16. It is decoded into the pairs of an uncompressed panel where it is read, block by block.
//
// A group is eight columns of a panel: a word of 32 bits for each of its 32 rows, column i in bits 4i … 4i+3. Beyond the
// last column weights are zero. So many columns of a row have one scale as divide both a row and a block; the 32 scales of
// these columns of a panel lie together.

INLINE int is_quantised(const grpo_matrix *m) { return m->scales != NULL; }

// The scales of column k of a panel.
INLINE const float *scales_at(const grpo_matrix *m, int64_t panel, int64_t k)
{
	int64_t segments = m->cols / m->segment;
	return m->scales + (panel * segments + min64(k / m->segment, segments - 1)) * PANEL;
}

// The 16 values as the lanes of vectors.
typedef struct {
#if VL == 16
	vf v;
#elif VL == 8
	vf low, high;
#else
	const float *v;
#endif
} table;

INLINE table table_of(const float *values)
{
#if VL == 16
	return (table){load(values)};
#elif VL == 8
	return (table){load(values), load(values + 8)};
#else
	return (table){values};
#endif
}

// The values that the lowest four bits of each lane name.
INLINE vf look_up(const table *t, vi codes)
{
	vf out;
#if VL == 16
	__asm__("vpermps %1, %2, %0" : "=v"(out) : "v"(t->v), "v"(codes));
#elif VL == 8
	vf low, high;
	__asm__("vpermps %1, %2, %0" : "=x"(low) : "x"(t->low), "x"(codes));
	__asm__("vpermps %1, %2, %0" : "=x"(high) : "x"(t->high), "x"(codes));
	out = pick(codes << 28 >> 31, high, low);
#else
	UNROLL for (int i = 0; i < VL; i++) out[i] = t->v[codes[i] & 15];
#endif
	return out;
}

// Columns 2j and 2j+1 of a group, of the rows of its words, as pairs.
INLINE vi decode_pair(const table *t, vi words, int j, vf first_scale, vf second_scale)
{
	vf first = look_up(t, words >> 8 * j) * first_scale, second = look_up(t, words >> (8 * j + 4)) * second_scale;
	return paired(rounded((vi)first), rounded((vi)second));
}

// Columns [k, k+depth) of a panel as pairs, rounded up to whole groups; k is a multiple of CODES.
static void decode_codes(char *block, const grpo_matrix *m, int64_t panel, int64_t k, int64_t depth)
{
	const char *words = panel_at(m, panel) + k / CODES * CODE_BYTES;
	table t = table_of(m->values);
	int shared = m->segment % CODES == 0; // by all columns of a group
	for (int64_t end = k + depth; k < end; k += CODES, words += CODE_BYTES, block += CODES / 2 * PAIR_BYTES) {
		const float *scales[CODES];
		UNROLL for (int i = 0; i < CODES; i++) scales[i] = shared && i ? scales[0] : scales_at(m, panel, k + i);
		__builtin_prefetch(words + DECOMPRESS_AHEAD);
		__builtin_prefetch(words + DECOMPRESS_AHEAD + 64);
		UNROLL for (int lane = 0; lane < PANEL; lane += VL)
		{
			vi w = loadi(words + 4 * lane);
			UNROLL for (int j = 0; j < CODES / 2; j++)
			{
				vi pair = decode_pair(&t, w, j, load(scales[2 * j] + lane), load(scales[2 * j + 1] + lane));
				*(vi_any *)(block + j * PAIR_BYTES + 4 * lane) = pair;
			}
		}
	}
}

// Columns [k0, k1) of row r of a panel.
static void decode_row(float *out, const grpo_matrix *m, int64_t panel, int r, int64_t k0, int64_t k1)
{
	const uint32_t *words = (const uint32_t *)panel_at(m, panel) + r;
	for (int64_t k = k0; k < k1; k++) {
		int code = words[k / CODES * PANEL] >> 4 * (k % CODES) & 15;
		out[k - k0] = rounded1(m->values[code] * scales_at(m, panel, k)[r]);
	}
}

// Writes the rows of one part of a matrix: codes and scales as files have them. A task is one panel, starting with the one
// that the part's first row is in.
static void load_codes(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_load_codes *a = args;
	const uint8_t *codes = (const uint8_t *)a->codes;
	const float *scales = (const float *)a->scales;
	int64_t cols = a->m.cols, segment = a->m.segment, first = a->row / PANEL;
	(void)scratch;
	for (int64_t p = first + from; p < first + to; p++) {
		uint32_t *words = (uint32_t *)panel_at(&a->m, p);
		int64_t r0 = max64(p * PANEL, a->row), r1 = min64((p + 1) * PANEL, a->row + a->count);
		for (int64_t row = r1; row == a->m.rows && row % PANEL; row++) // the rows beyond the last: their scale is 0, and so are they
			for (int64_t g = 0; g < code_groups(cols); g++) words[g * PANEL + row % PANEL] = UINT32_MAX;
		for (int64_t row = r0; row < r1; row++) {
			int64_t at = (row - a->row) * cols;
			int r = row - p * PANEL;
			for (int64_t k = 0; k < cols; k += segment) {
				float scale;
				memcpy(&scale, scales + (at + k) / a->block, 4);
				((float *)scales_at(&a->m, p, k))[r] = scale;
			}
			for (int64_t k = 0; k < cols; k += CODES) {
				uint32_t word = 0;
				for (int i = 0; i < min64(CODES, cols - k); i++) {
					int64_t n = at + k + i;
					word |= (uint32_t)(n % 2 ? codes[n / 2] & 15 : codes[n / 2] >> 4) << 4 * i;
				}
				words[k / CODES * PANEL + r] = word;
			}
		}
	}
}
