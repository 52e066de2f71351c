// The tile of one row whose right-hand side has four bits a weight: pairs are decoded in registers and multiplied at once. With more
// rows the sums need so many registers that pairs are decoded to memory first.

#if VL == 16
// Both halves of a panel are processed together: twice as many independent chains of sums hide more of the latency of additions.
INLINE void codes_tile(const tile_inputs *r, float *sums, const target *t, const int form)
{
	const grpo_matrix *m = r->codes;
	const char *words = r->b;
	const float *a = r->a, *scales = scales_at(m, r->panel, r->k);
	table values = table_of(m->values);
	vf acc[MR][NV];
	UNROLL for (int v = 0; v < NV; v++) acc[0][v] = r->first ? splat(0) : load(sums + v * VL);
	int64_t k = r->k, end = k + r->depth;
	for (int64_t next = (k / m->segment + 1) * m->segment; k < end; next += m->segment, scales += PANEL) {
		row_tables tables[2][4];
		UNROLL for (int half = 0; half < 2; half++) tables_of_sixteen(tables[half], &values, scales + half * PANEL / 2, 1);
		for (; k < min64(next, end); k += CODES, words += CODE_BYTES, a += form == CODES_IN_PAIRS ? CODES / 2 : CODES) {
			UNROLL for (int line = 0; line < CODE_BYTES / 64; line++) __builtin_prefetch(words + DECOMPRESS_AHEAD + 64 * line);
			UNROLL for (int i = 0; i < 4; i++)
			{
				vi pairs[2][4];
				UNROLL for (int half = 0; half < 2; half++) decode_sixteen(pairs[half], tables[half], words + half * CODE_BYTES / 2, i);
				UNROLL for (int j = 0; j < 8; j++)
				{
					int pair = 4 * i + j / 2, half = j % 2;
					vi w = pairs[half][j / 2];
					if (form == CODES_IN_PAIRS) {
						acc[0][half] = add_pairs(acc[0][half], w, (vi)splat(a[pair]));
					} else {
						acc[0][half] = fused(widen_first(w), splat(a[2 * pair]), acc[0][half]);
						acc[0][half] = fused(widen_second(w), splat(a[2 * pair + 1]), acc[0][half]);
					}
				}
			}
		}
	}
	write_sums(acc[0], 1, NV, 1, 0, 0, r->last, sums, t);
}

static void tile_codes_widened(const tile_inputs *r, float *sums, const target *t) { codes_tile(r, sums, t, CODES_WIDENED); }
static void tile_codes_in_pairs(const tile_inputs *r, float *sums, const target *t) { codes_tile(r, sums, t, CODES_IN_PAIRS); }
#elif VL == 8
// The sums of all 32 columns are computed together, because fewer chains would not hide the latency of additions. Decoding half a
// group takes as long as the latency of its products, so it is interleaved with the products of the half group before.
enum { HALF_PAIRS = CODES / 4, EIGHTS = PANEL / 8 };

typedef struct {
	vi pairs[HALF_PAIRS][EIGHTS];
} half_group;

INLINE void decode_half(half_group *h, const char *units, const byte_tables *t, const int q, const int half)
{
	vi pairs[HALF_PAIRS];
	decode_eight(pairs, units + 128 * q, t + q, half);
	UNROLL for (int i = 0; i < HALF_PAIRS; i++) h->pairs[i][q] = pairs[i];
}

INLINE void add_pair(vf acc[EIGHTS], const vi pairs[EIGHTS], const float *a)
{
	UNROLL for (int q = 0; q < EIGHTS; q++) acc[q] = fused(widen_first(pairs[q]), splat(a[0]), acc[q]);
	UNROLL for (int q = 0; q < EIGHTS; q++) acc[q] = fused(widen_second(pairs[q]), splat(a[1]), acc[q]);
}

// Decodes half a group, and adds the products of the half group before it.
INLINE void decode_and_add(half_group *h, const char *units, const byte_tables *t, const int half, vf acc[EIGHTS],
                           const half_group *before, const float *a)
{
	UNROLL for (int q = 0; q < EIGHTS; q++)
	{
		decode_half(h, units, t, q, half);
		add_pair(acc, before->pairs[2 * q], a + 4 * q);
		add_pair(acc, before->pairs[2 * q + 1], a + 4 * q + 2);
	}
}

static void tile_codes_widened(const tile_inputs *r, float *sums, const target *t)
{
	const grpo_matrix *m = r->codes;
	const char *units = r->b;
	const float *a = r->a, *scales = scales_at(m, r->panel, r->k);
	vf acc[EIGHTS], values[4];
	byte_tables tables[EIGHTS];
	half_group halves[2] = {0}; // if there are no codes, zeros are added
	ordered_values(values, m->values);
	UNROLL for (int q = 0; q < EIGHTS; q++) acc[q] = r->first ? splat(0) : load(sums + 8 * q);
	int64_t k = r->k, end = k + r->depth;
	for (int64_t next = (k / m->segment + 1) * m->segment; k < end; next += m->segment, scales += PANEL) {
		for (int q = 0; q < EIGHTS; q++) tables_of_eight(tables + q, values, scales + 8 * q, 1);
		for (; k < min64(next, end); k += CODES, units += CODE_BYTES, a += CODES) {
			UNROLL for (int line = 0; line < CODE_BYTES / 64; line++) __builtin_prefetch(units + DECOMPRESS_AHEAD + 64 * line);
			if (k == r->k)
				UNROLL for (int q = 0; q < EIGHTS; q++) decode_half(halves, units, tables, q, 0);
			else
				decode_and_add(halves, units, tables, 0, acc, halves + 1, a - CODES / 2);
			decode_and_add(halves + 1, units, tables, 1, acc, halves, a);
		}
	}
	UNROLL for (int i = 0; i < HALF_PAIRS; i++) add_pair(acc, halves[1].pairs[i], a - CODES / 2 + 2 * i);
	UNROLL for (int q = 0; q < EIGHTS; q++)
	{
		if (r->last)
			store(t->out + 8 * q, epilogue(acc[q], t, 0, 8 * q));
		else
			store(sums + 8 * q, acc[q]);
	}
}
#endif

INLINE tile_function *function_of(int mr, int a_form, int b_form)
{
#if VL >= 8
	if (b_form == CODES_WIDENED)
		return tile_codes_widened;
#endif
#if VL == 16
	if (b_form == CODES_IN_PAIRS)
		return tile_codes_in_pairs;
#endif
	return tile_functions[mr][a_form][b_form];
}

// Whether a product of one row can use codes_tile.
INLINE int takes_codes(const grpo_matrix *m, int64_t tiles, int height)
{
	return VL >= 8 && is_quantised(m) && m->native && m->segment % CODES == 0 && tiles == 1 && height == 1;
}
