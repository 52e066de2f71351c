// The tile of one row whose right-hand side is four bits a weight: pairs go from their codes into the sums without a stop in
// memory. With more rows the sums are so many that pairs are decoded for all of them first.

#if VL == 16
// Both halves of a panel go together: a sum waits for itself less.
INLINE void codes_tile(const reading *r, float *sums, const target *t, const int form)
{
	const grpo_matrix *m = r->codes;
	const char *words = r->b;
	const float *a = r->a, *scales = scales_at(m, r->panel, r->k);
	table values = table_of(m->values);
	vf acc[MR][NV];
	UNROLL for (int v = 0; v < NV; v++) acc[0][v] = r->first ? splat(0) : load(sums + column_of(0, v));
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
						acc[0][half] += widen_first(w) * a[2 * pair];
						acc[0][half] += widen_second(w) * a[2 * pair + 1];
					}
				}
			}
		}
	}
	write_sums(acc, 1, 1, 0, r->last, sums, t);
}

static void tile_codes_widened(const reading *r, float *sums, const target *t) { codes_tile(r, sums, t, CODES_WIDENED); }
static void tile_codes_in_pairs(const reading *r, float *sums, const target *t) { codes_tile(r, sums, t, CODES_IN_PAIRS); }
#endif

INLINE tile_function *function_of(int mr, int a_form, int b_form)
{
#if VL == 16
	if (b_form == CODES_WIDENED)
		return tile_codes_widened;
	if (b_form == CODES_IN_PAIRS)
		return tile_codes_in_pairs;
#endif
	return tile_functions[mr][a_form][b_form];
}

// Whether a tile of one row, the only one, can take the codes of a matrix as they are.
INLINE int takes_codes(const grpo_matrix *m, int64_t tiles, int height)
{
	return VL == 16 && is_quantised(m) && m->native && m->segment % CODES == 0 && tiles == 1 && height == 1;
}
