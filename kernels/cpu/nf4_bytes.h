// Codes of four bits for vectors of 32 bytes, by an instruction (vpshufb) that looks up bytes in a table of 16: the layout of panels
// whose groups have one scale per row, and how they are decoded.
//
// The 16 numbers that a row can have with one scale are computed first, in bf16, and split into tables of their lower and their
// upper bytes. A group is 16 units of 32 bytes: unit 4q+i has in its halves rows 8q+i and 8q+4+i, with the codes of the row's
// first 16 columns in the lower bits of the bytes and of the others in the upper ones. The bytes looked up for two rows are
// combined to pairs of bf16 and transposed together with those of six other rows. In rows with odd i, neighbouring pairs are
// swapped, so that half of the transposition is blending.

INLINE int is_by_bytes(const grpo_matrix *m) { return VL == 8 && m->segment % CODES == 0; }

// The position of the codes of row r and columns k and k+1: the address of the second code's byte, which precedes the first code's.
INLINE uint8_t *bytes_of(const grpo_matrix *m, int64_t panel, int r, int64_t k)
{
	int pair = (k % 16 / 2) ^ (r % 2);
	return (uint8_t *)panel_at(m, panel) + k / CODES * CODE_BYTES + (r / 8 * 4 + r % 4) * 32 + r / 4 % 2 * 16 + 2 * pair;
}

INLINE int bit_in_byte(int64_t k) { return k % CODES / 16 * 4; }

#if VL == 8
typedef char bytes __attribute__((vector_size(32)));
typedef int16_t words __attribute__((vector_size(32)));
typedef uint16_t unsigned_words __attribute__((vector_size(32)));

// The tables of eight rows: lower and upper bytes of rows 0 and 4, of 1 and 5, ….
typedef struct {
	vi low[4], high[4];
} byte_tables;

// Distributes the 16 values over four vectors in the order that takes tables_of_two the fewest instructions.
INLINE void ordered_values(vf v[4], const float *values)
{
	static const int order[4] = {2, 0, 3, 1};
	UNROLL for (int j = 0; j < 4; j++)
		UNROLL for (int i = 0; i < VL; i++) v[j][i] = values[i % 4 * 4 + order[j]];
}

// The nearest bf16 of each float, ties to even, as in `rounded`. The quick way is for numbers that are zero or well inside the range
// of normal ones; a zero loses its sign, which does not matter in a sum that begins with zero. Let a unit be the spacing of bf16 at
// the size of x: 65536·x is a multiple of it, and x itself is 128 to 256 of them. So the float nearest to 65535·x, which has 24 bits,
// is a multiple of the unit below 65536·x, by the multiple nearest to x. In a tie the last bit of x is zero, so even stays even. Just
// above a power of two that float may have one bit more, but x is too close to 128 units for it to matter.
INLINE vf round_to_bf16(vf x, const int quick)
{
	if (!quick)
		return (vf)rounded((vi)x);
	vf below = x * 65535.0f;
	__asm__("" : "+x"(below)); // keeps the compiler from fusing the product into the difference
	return x * 65536.0f - below;
}

INLINE void tables_of_two(byte_tables *t, const int i, const vf values[4], vf scale, const int quick)
{
	vi n[4];
	UNROLL for (int j = 0; j < 4; j++) n[j] = (vi)round_to_bf16(values[j] * scale, quick);
	vi p = paired(n[0], n[1]), q = paired(n[2], n[3]);
	const vi lower = (vi){0} + 0x00ff00ff;
	t->low[i] = (p & lower) | (vi)((words)q << 8);
	t->high[i] = (vi)((unsigned_words)p >> 8) | (q & ~lower);
}

// The scales of two rows, each in its half.
#define SCALES_OF(s, i) SHUFFLE(s, s, i, i, i, i, i + 4, i + 4, i + 4, i + 4)

INLINE void tables_of_eight(byte_tables *t, const vf values[4], const float *scales, const int quick)
{
	vf s = load(scales);
	tables_of_two(t, 0, values, SCALES_OF(s, 0), quick);
	tables_of_two(t, 1, values, SCALES_OF(s, 1), quick);
	tables_of_two(t, 2, values, SCALES_OF(s, 2), quick);
	tables_of_two(t, 3, values, SCALES_OF(s, 3), quick);
}

INLINE vi find_bytes(vi table, vi index) { return (vi)__builtin_ia32_pshufb256((bytes)table, (bytes)index); }

#define ZIP_BYTES(a, b, n)                                                                                                          \
	(vi) SHUFFLE((bytes)(a), (bytes)(b), n, n + 32, n + 1, n + 33, n + 2, n + 34, n + 3, n + 35, n + 4, n + 36, n + 5, n + 37, \
	             n + 6, n + 38, n + 7, n + 39, n + 16, n + 48, n + 17, n + 49, n + 18, n + 50, n + 19, n + 51, n + 20, n + 52, \
	             n + 21, n + 53, n + 22, n + 54, n + 23, n + 55)

// a with every second lane replaced by that of b.
#define ALTERNATE(a, b) SHUFFLE(a, b, 0, 9, 2, 11, 4, 13, 6, 15)

// Four pairs of eight rows, from vectors of two rows each. On floats, because one shuffle can take two lanes from each of two vectors.
INLINE void join_rows(vi pairs[4], const vi two[4])
{
	vf even[2], odd[2];
	UNROLL for (int i = 0; i < 2; i++)
	{
		even[i] = (vf)ALTERNATE(two[2 * i], two[2 * i + 1]);
		odd[i] = (vf)ALTERNATE(two[2 * i + 1], two[2 * i]);
	}
	pairs[0] = (vi)SHUFFLE(even[0], even[1], 0, 1, 8, 9, 4, 5, 12, 13);
	pairs[1] = (vi)SHUFFLE(odd[0], odd[1], 1, 0, 9, 8, 5, 4, 13, 12);
	pairs[2] = (vi)SHUFFLE(even[0], even[1], 2, 3, 10, 11, 6, 7, 14, 15);
	pairs[3] = (vi)SHUFFLE(odd[0], odd[1], 3, 2, 11, 10, 7, 6, 15, 14);
}

// Decodes the eight pairs of half a group, for the eight rows of units and tables.
INLINE void decode_eight(vi pairs[8], const char *units, const byte_tables *t, const int half)
{
	vi first[4], last[4];
	UNROLL for (int i = 0; i < 4; i++)
	{
		vi w = loadi(units + 32 * i), index = (half ? w >> 4 : w) & 0x0f0f0f0f;
		vi low = find_bytes(t->low[i], index), high = find_bytes(t->high[i], index);
		first[i] = ZIP_BYTES(low, high, 0);
		last[i] = ZIP_BYTES(low, high, 8);
	}
	join_rows(pairs, first);
	join_rows(pairs + 4, last);
}

// Decodes columns [k, k+depth) of a panel to pairs; k and depth are multiples of CODES.
INLINE void decode_bytes(char *block, const grpo_matrix *m, int64_t panel, int64_t k, int64_t depth, const int quick)
{
	const char *units = column_at(m, panel, k);
	const float *scales = scales_at(m, panel, k);
	vf values[4];
	ordered_values(values, m->values);
	int64_t next = (k / m->segment + 1) * m->segment;
	for (int64_t end = k + depth; k < end; k = next, next += m->segment, scales += PANEL) {
		int64_t groups = (min64(next, end) - k) / CODES;
		for (int q = 0; q < PANEL / 8; q++) {
			byte_tables t;
			tables_of_eight(&t, values, scales + 8 * q, quick);
			const char *from = units + 128 * q;
			char *to = block + 32 * q;
			for (int64_t g = 0; g < groups; g++, from += CODE_BYTES) {
				prefetch_lines(from + DECOMPRESS_AHEAD, 2);
				UNROLL for (int half = 0; half < 2; half++, to += 8 * PAIR_BYTES)
				{
					vi pairs[8];
					decode_eight(pairs, from, &t, half);
					UNROLL for (int i = 0; i < 8; i++) *(vi_any *)(to + i * PAIR_BYTES) = pairs[i];
				}
			}
		}
		units += groups * CODE_BYTES;
		block += groups * (CODES / 2) * PAIR_BYTES;
	}
}
#endif
