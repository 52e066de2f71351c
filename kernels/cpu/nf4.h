// A matrix of bf16 in four bits a weight: a code selects one of 16 values, which is multiplied by the scale of the weight's
// block and rounded to bf16. It is decoded into the pairs of an uncompressed panel when it is read, block by block.
//
// The layout (nf4_bytes.h has another one, for vectors of 32 bytes where the columns of a group share their scale): A group is 32
// columns of a panel, divided into sets of four rows with 64 bytes each. In such a set, word [b][r] of 32 bits, b and r from 0 to 3,
// has the codes of row r for pairs b, 4+b, 8+b and 12+b of the group's 16 pairs of columns: pair 4i+b has its first code in bits
// 16+4i … 19+4i and its second in bits 4i … 4i+3. A segment, whose length divides both a row and a block, is the columns of a row
// with one scale; the 32 scales of a panel for a segment are contiguous.

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

// Looks up the value of the code in the lowest four bits of each lane.
INLINE vf look_up(const table *t, vi codes)
{
	vf out;
#if VL == 16
	__asm__("vpermps %1, %2, %0" : "=v"(out) : "v"(t->v), "v"(codes));
#elif VL == 8
	vf low, high;
	__asm__("vpermps %1, %2, %0" : "=x"(low) : "x"(t->low), "x"(codes));
	__asm__("vpermps %1, %2, %0" : "=x"(high) : "x"(t->high), "x"(codes));
	out = blend(codes << 28 >> 31, high, low);
#else
	UNROLL for (int i = 0; i < VL; i++) out[i] = t->v[codes[i] & 15];
#endif
	return out;
}

// A vector has the words of four rows for this many pairs b, b+1, ….
enum { FOURS = VL / 4 };

// The scales of four rows at column k, and in the further lanes at columns k+2, k+4, ….
INLINE vf four_scales(const grpo_matrix *m, int64_t panel, int four, int64_t k)
{
	float s[VL];
	UNROLL for (int i = 0; i < FOURS; i++) memcpy(s + 4 * i, scales_at(m, panel, k + 2 * i) + 4 * four, 16);
	return load(s);
}

// Decodes four rows of a group, which starts at column k.
INLINE void decode_four(char *block, const char *words, const table *t, const grpo_matrix *m, int64_t panel, int four, int64_t k)
{
	int shared = m->segment % CODES == 0; // by all columns of the group
	UNROLL for (int b = 0; b < 4; b += FOURS)
	{
		vi w = loadi(words + 16 * b);
		vf first = four_scales(m, panel, four, k + 2 * b), second = first;
		UNROLL for (int i = 0; i < 4; i++)
		{
			int pair = 4 * i + b;
			if (!shared) {
				first = four_scales(m, panel, four, k + 2 * pair);
				second = four_scales(m, panel, four, k + 2 * pair + 1);
			}
			vi pairs = paired(rounded((vi)(look_up(t, w >> (16 + 4 * i)) * first)), rounded((vi)(look_up(t, w >> 4 * i) * second)));
			UNROLL for (int j = 0; j < FOURS; j++) memcpy(block + (pair + j) * PAIR_BYTES + 16 * four, (char *)&pairs + 16 * j, 16);
		}
	}
}

#if VL == 16
// A faster way, if all columns of a group share their scale: the 16 weights that a row can have there are computed first, and one
// instruction looks up codes in a table of four rows, 64 words of 16 bits, which gives four pairs of each row. Then the four pairs
// of 16 rows are transposed.

typedef int16_t v16 __attribute__((vector_size(64)));
typedef struct {
	vi low, high;
} row_tables;

// Two rows' weights as bf16, 16 words each.
INLINE vi round_weights(vf first, vf second, const int native)
{
	vi out;
	if (native)
		__asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(out) : "v"(first), "v"(second));
	else
		out = (vi)SHUFFLE((v16)rounded((vi)first), (v16)rounded((vi)second), 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23,
			25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63);
	return out;
}

INLINE row_tables tables_of(const table *t, const float *scales, const int native)
{
	return (row_tables){round_weights(t->v * scales[0], t->v * scales[1], native),
	                    round_weights(t->v * scales[2], t->v * scales[3], native)};
}

// Looks up the weights of the codes in bits 4i … 4i+3 of each word of 16 bits.
INLINE vi look_up_rows(const row_tables *t, vi words, const int i)
{
	const vi rows = {0, 0x00100010, 0x00200020, 0x00300030, 0, 0x00100010, 0x00200020, 0x00300030,
	                 0, 0x00100010, 0x00200020, 0x00300030, 0, 0x00100010, 0x00200020, 0x00300030};
	vi index = (vi)((v16)words >> 4 * i), mask = (vi){0} + 0x000f000f;
	__asm__("vpternlogd $0xea, %2, %1, %0" : "+v"(index) : "v"(mask), "v"(rows)); // index & mask | rows
	__asm__("vpermi2w %2, %1, %0" : "+v"(index) : "v"(t->low), "v"(t->high));
	return index;
}

#define QUARTERS(a, b, i, j, k, l)                                                                                        \
	SHUFFLE(a, b, 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3, 4 * (j), 4 * (j) + 1, 4 * (j) + 2, 4 * (j) + 3,       \
	        4 * (k), 4 * (k) + 1, 4 * (k) + 2, 4 * (k) + 3, 4 * (l), 4 * (l) + 1, 4 * (l) + 2, 4 * (l) + 3)

// Decodes pairs 4i … 4i+3 of 16 rows of a group; words is the address of those of the first four rows.
INLINE void decode_sixteen(vi pairs[4], const row_tables t[4], const char *words, const int i)
{
	vi r[4];
	UNROLL for (int four = 0; four < 4; four++) r[four] = look_up_rows(t + four, loadi(words + 64 * four), i);
	vi a = QUARTERS(r[0], r[1], 0, 1, 4, 5), b = QUARTERS(r[2], r[3], 0, 1, 4, 5);
	vi c = QUARTERS(r[0], r[1], 2, 3, 6, 7), d = QUARTERS(r[2], r[3], 2, 3, 6, 7);
	pairs[0] = QUARTERS(a, b, 0, 2, 4, 6);
	pairs[1] = QUARTERS(a, b, 1, 3, 5, 7);
	pairs[2] = QUARTERS(c, d, 0, 2, 4, 6);
	pairs[3] = QUARTERS(c, d, 1, 3, 5, 7);
}

INLINE void tables_of_sixteen(row_tables t[4], const table *values, const float *scales, const int native)
{
	UNROLL for (int four = 0; four < 4; four++) t[four] = tables_of(values, scales + 4 * four, native);
}

INLINE void decode_groups(char *block, const grpo_matrix *m, int64_t panel, int64_t k, int64_t depth, const int native)
{
	const char *words = column_at(m, panel, k);
	const float *scales = scales_at(m, panel, k);
	table values = table_of(m->values);
	int64_t next = (k / m->segment + 1) * m->segment;
	for (int64_t end = k + depth; k < end; k = next, next += m->segment, scales += PANEL) {
		int64_t groups = (min64(next, end) - k + CODES - 1) / CODES;
		for (int half = 0; half < 2; half++) {
			row_tables t[4];
			tables_of_sixteen(t, &values, scales + half * PANEL / 2, native);
			const char *w = words + half * CODE_BYTES / 2;
			char *to = block + half * PAIR_BYTES / 2;
			for (int64_t g = 0; g < groups; g++, w += CODE_BYTES) {
				UNROLL for (int line = 0; line < 4; line++) __builtin_prefetch(w + DECOMPRESS_AHEAD + 64 * line);
				UNROLL for (int i = 0; i < 4; i++, to += 4 * PAIR_BYTES)
				{
					vi pairs[4];
					decode_sixteen(pairs, t, w, i);
					UNROLL for (int b = 0; b < 4; b++) *(vi_any *)(to + b * PAIR_BYTES) = pairs[b];
				}
			}
		}
		words += groups * CODE_BYTES;
		block += groups * (CODES / 2) * PAIR_BYTES;
	}
}
#endif

// Decodes columns [k, k+depth) of a panel to pairs, rounded up to whole groups; k is a multiple of CODES.
static void decode_codes(char *block, const grpo_matrix *m, int64_t panel, int64_t k, int64_t depth)
{
#if VL == 8
	if (is_by_bytes(m)) {
		if (m->native)
			decode_bytes(block, m, panel, k, depth, 1);
		else
			decode_bytes(block, m, panel, k, depth, 0);
		return;
	}
#elif VL == 16
	if (m->segment % CODES == 0) {
		if (m->native)
			decode_groups(block, m, panel, k, depth, 1);
		else
			decode_groups(block, m, panel, k, depth, 0);
		return;
	}
#endif
	const char *words = panel_at(m, panel) + k / CODES * CODE_BYTES;
	table t = table_of(m->values);
	for (int64_t end = k + depth; k < end; k += CODES, block += CODES / 2 * PAIR_BYTES)
		for (int four = 0; four < PANEL / 4; four++, words += CODE_BYTES / (PANEL / 4)) {
			__builtin_prefetch(words + DECOMPRESS_AHEAD);
			decode_four(block, words, &t, m, panel, four, k);
		}
}

// The position of the code of row r and column k of a panel: its word, and in that its lowest bit.
INLINE uint32_t *word_of(const grpo_matrix *m, int64_t panel, int r, int64_t k)
{
	int64_t group = k / CODES, pair = k % CODES / 2;
	return (uint32_t *)panel_at(m, panel) + group * (CODE_BYTES / 4) + r / 4 * 16 + pair % 4 * 4 + r % 4;
}

INLINE int bit_of(int64_t k) { return k % CODES / 8 * 4 + (k % 2 ? 0 : 16); }

INLINE int code_at(const grpo_matrix *m, int64_t panel, int r, int64_t k)
{
	if (is_by_bytes(m))
		return bytes_of(m, panel, r, k)[1 - k % 2] >> bit_in_byte(k) & 15;
	return *word_of(m, panel, r, k) >> bit_of(k) & 15;
}

// Writes the codes of even columns k, and of k+1. It must be called in ascending order of k: the first codes of a word or byte overwrite
// its old content.
INLINE void put_codes(const grpo_matrix *m, int64_t panel, int r, int64_t k, uint32_t first, uint32_t second)
{
	if (is_by_bytes(m)) {
		uint8_t *at = bytes_of(m, panel, r, k);
		int bit = bit_in_byte(k);
		at[1] = bit ? at[1] | first << bit : first;
		at[0] = bit ? at[0] | second << bit : second;
		return;
	}
	uint32_t *word = word_of(m, panel, r, k), pair = first << 16 | second;
	int i = k % CODES / 8;
	*word = i ? *word | pair << 4 * i : pair;
}

// Decodes columns [k0, k1) of row r of a panel.
static void decode_row(float *out, const grpo_matrix *m, int64_t panel, int r, int64_t k0, int64_t k1)
{
	for (int64_t k = k0; k < k1; k++) {
		int code = code_at(m, panel, r, k);
		out[k - k0] = rounded1(m->values[code] * scales_at(m, panel, k)[r]);
	}
}
