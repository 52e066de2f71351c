// The product in integers for one row: codes are decoded in registers and multiplied at once.

#if VL == 16
// A vector has four rows of the matrix: lane 4b+r has pair 4i+b of row r, so each pair of inputs is repeated in four lanes.
INLINE vi inputs_of(const int32_t *pairs)
{
	vi x;
	__asm__("vbroadcasti32x4 %1, %0" : "=v"(x) : "m"(*(const int32_t(*)[4])pairs));
	return SHUFFLE(x, x, 0, 0, 0, 0, 5, 5, 5, 5, 10, 10, 10, 10, 15, 15, 15, 15);
}

// The values that bits 4i … 4i+3 of each word select. The table has the 16 values twice, so the bit above them does not matter.
INLINE vi look_up_integers(vi twice, vi words, const int i)
{
	vi index = (vi)((v16)words >> 4 * i), out;
	__asm__("vpermw %1, %2, %0" : "=v"(out) : "v"(twice), "v"(index));
	return out;
}

// The sums of 16 rows, from four vectors of four rows each.
INLINE vi sums_of_rows(const vi four[4])
{
	vi a = QUARTERS(four[0], four[1], 0, 1, 4, 5) + QUARTERS(four[0], four[1], 2, 3, 6, 7);
	vi b = QUARTERS(four[2], four[3], 0, 1, 4, 5) + QUARTERS(four[2], four[3], 2, 3, 6, 7);
	return QUARTERS(a, b, 0, 2, 4, 6) + QUARTERS(a, b, 1, 3, 5, 7);
}

INLINE void add_row_chunk(vf sums[2], const char *words, const int32_t *pairs, float scale, const float *scales, vi twice, const int dot)
{
	vi acc[8] = {{0}};
	UNROLL for (int g = 0; g < CHUNK / CODES; g++, words += CODE_BYTES)
	{
		vi x[4];
		UNROLL for (int i = 0; i < 4; i++) x[i] = inputs_of(pairs + 16 * g + 4 * i);
		UNROLL for (int four = 0; four < 8; four++)
		{
			vi w = loadi(words + 64 * four);
			__builtin_prefetch(words + DECOMPRESS_AHEAD + 64 * four);
			UNROLL for (int i = 0; i < 4; i++) acc[four] = add_integer_pairs(acc[four], look_up_integers(twice, w, i), x[i], dot);
		}
	}
	UNROLL for (int half = 0; half < 2; half++)
		sums[half] = add_chunk(sums[half], sums_of_rows(acc + 4 * half), scale, load(scales + 16 * half));
}

INLINE void integer_row_sums(vf *sums, const grpo_integer_product *g, int64_t panel, const int16_t *values, const int dot)
{
	vi twice;
	memcpy(&twice, values, 32);
	memcpy((char *)&twice + 32, values, 32);
	const char *words = column_at(&g->m, panel, 0);
	for (int64_t c = 0; c < g->m.cols / CHUNK; c++, words += 2 * CODE_BYTES)
		add_row_chunk(sums, words, g->pairs + c * (CHUNK / 2), g->scales[c], scales_at(&g->m, panel, c * CHUNK), twice, dot);
}
#elif VL == 8
// A unit (nf4_bytes.h) has two rows, one in each half, with 16 columns in the lower bits and 16 in the upper. In odd rows neighbouring
// pairs are swapped, and in inputs[1], which belong to these, as well.
enum { CHUNK_INPUTS = CHUNK / 8 };

INLINE void inputs_of(vi inputs[2][CHUNK_INPUTS], const int32_t *pairs)
{
	UNROLL for (int j = 0; j < CHUNK_INPUTS; j++)
	{
		vi x;
		__asm__("vbroadcasti128 %1, %0" : "=x"(x) : "m"(*(const int32_t(*)[4])(pairs + 4 * j)));
		inputs[0][j] = x;
		inputs[1][j] = SHUFFLE(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
	}
}

INLINE vi add_neighbours(vi a, vi b)
{
	vi out;
	__asm__("vphaddd %2, %1, %0" : "=x"(out) : "x"(a), "x"(b));
	return out;
}

// Adds the products of half the codes of a unit with their inputs.
INLINE vi add_unit(vi sum, vi index, const vi inputs[2], vi low, vi high)
{
	vi l = find_bytes(low, index), h = find_bytes(high, index);
	sum = add_integer_pairs(sum, ZIP_BYTES(l, h, 0), inputs[0], 0);
	sum = add_integer_pairs(sum, ZIP_BYTES(l, h, 8), inputs[1], 0);
	__asm__("" : IN_REGISTER(sum)); // keeps the compiler from reordering the additions, for which there are too few registers
	return sum;
}

// The sums of one chunk for the eight rows of units.
INLINE vi eight_rows(const char *units, vi inputs[2][CHUNK_INPUTS], vi low, vi high)
{
	vi acc[4];
	UNROLL for (int i = 0; i < 4; i++)
	{
		acc[i] = (vi){0};
		UNROLL for (int g = 0; g < CHUNK / CODES; g++)
		{
			vi w = loadi(units + g * CODE_BYTES + 32 * i);
			acc[i] = add_unit(acc[i], w & 0x0f0f0f0f, inputs[i % 2] + 4 * g, low, high);
			acc[i] = add_unit(acc[i], w >> 4 & 0x0f0f0f0f, inputs[i % 2] + 4 * g + 2, low, high);
		}
	}
	return add_neighbours(add_neighbours(acc[0], acc[1]), add_neighbours(acc[2], acc[3]));
}

INLINE void integer_row_sums(vf *sums, const grpo_integer_product *g, int64_t panel, const int16_t *values, const int dot)
{
	const byte_tables t = integer_tables(values);
	const vi low = t.low[0], high = t.high[0];
	const char *units = column_at(&g->m, panel, 0);
	(void)dot;
	for (int64_t c = 0; c < g->m.cols / CHUNK; c++, units += 2 * CODE_BYTES) {
		const float *scales = scales_at(&g->m, panel, c * CHUNK);
		vi inputs[2][CHUNK_INPUTS];
		inputs_of(inputs, g->pairs + c * (CHUNK / 2));
		UNROLL for (int line = 0; line < 2 * CODE_BYTES / 64; line++) __builtin_prefetch(units + DECOMPRESS_AHEAD + 64 * line);
		UNROLL for (int q = 0; q < 4; q++)
			sums[q] = add_chunk(sums[q], eight_rows(units + 128 * q, inputs, low, high), g->scales[c], load(scales + 8 * q));
	}
}
#endif

#if VL >= 8
static void integer_row(const grpo_integer_product *g, int64_t panel, const int16_t *values)
{
	vf sums[PANEL / VL];
	float out[PANEL];
	UNROLL for (int v = 0; v < PANEL / VL; v++) sums[v] = splat(0);
	if (g->dot)
		integer_row_sums(sums, g, panel, values, 1);
	else
		integer_row_sums(sums, g, panel, values, 0);
	UNROLL for (int v = 0; v < PANEL / VL; v++) store(out + v * VL, sums[v]);
	write_integer_sums(g, out, 0, 1, panel);
}
#endif

// A task is a block of row tiles times one panel; panels run fastest.
static void integer_products(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_integer_product *g = args;
	int64_t panels = (g->m.rows + PANEL - 1) / PANEL;
	int16_t values[16];
	integer_values(values, g->m.values);
	for (int64_t t = from; t < to; t++) {
		int64_t tile0 = t / panels * g->block_tiles, panel = t % panels;
#if VL >= 8
		if (g->rows == 1) {
			integer_row(g, panel, values);
			continue;
		}
#endif
		integer_panel(g, scratch, tile0, min64(tile0 + g->block_tiles, g->row_tiles), panel, values);
	}
}
