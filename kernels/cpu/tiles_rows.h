// Rows in the forms of the order of tiles, packed or rounded; and both sides of a product from buffers whose rows are the inputs, as in
// the gradient of a weight: there each pair of bf16 is from two consecutive rows.

// Packs 32 inputs of one row as 16 pairs in a row of each piece's tile, written around the caches or not.
INLINE void pack_pairs(char *to, const float *x, const int pieces, const int around)
{
	for (int j = 0; j < TILE; j += VL) {
		vf a = load(x + 2 * j), b = load(x + 2 * j + VL);
		UNROLL for (int p = pieces - 1; p >= 0; p--)
		{
			char *row = to + p * TURN_BYTES + 4 * j;
			vi first = rounded((vi)a), second = rounded((vi)b), pairs = paired(EVEN_LANES(first, second), ODD_LANES(first, second));
			if (around)
				stream((float *)row, (vf)pairs);
			else
				*(vi_any *)row = pairs;
			a = a - (vf)first;
			b = b - (vf)second;
		}
	}
}

INLINE void pack_inputs(char *to, const float *x, int pieces, int around)
{
	if (pieces == 1 && around)
		pack_pairs(to, x, 1, 1);
	else if (pieces == 1)
		pack_pairs(to, x, 1, 0);
	else if (around)
		pack_pairs(to, x, PIECES, 1);
	else
		pack_pairs(to, x, PIECES, 0);
}

// Makes a rounded row of n numbers, a multiple of 32: consecutive pairs of bf16. Products that read it would round its numbers anyway.
static void pack_row(char *to, const float *x, int64_t n, int around)
{
	for (int64_t k = 0; k < n; k += TILE_INPUTS) pack_inputs(to + 2 * k, x + k, 1, around);
}

// Makes a rounded row of heads for attention in the order of tiles: n numbers, a multiple of 32, of which the first are queries, which are
// scaled. A subnormal query counts as zero.
static void pack_heads(char *to, float *row, int64_t queries, float scale, int64_t n, int around)
{
	const uint64_t before = flush_subnormals();
	for (int64_t i = 0; i < queries; i += VL) store_partial(row, i, queries, load_partial(row, i, queries) * scale);
	restore_subnormals(before);
	pack_row(to, row, n, around);
}

// Pairs across two rows, made from pairs along them: of the first numbers of both rows' pairs, and of the second ones.
typedef struct {
	vi even, odd;
} pairs_below;

INLINE pairs_below put_below(vi a, vi b)
{
	enum { HIGH = (int32_t)0xffff0000 };
	return (pairs_below){(a & HIGH) | (vi)((vu)b >> 16), (vi)((vu)a << 16) | (b & ~HIGH)};
}

// Packs `count` columns of x [inner, …] as one tile of rows, interleaved with another; the rows of the tile below are zero.
static void pack_across_tile(char *tile, const float *x, int64_t stride, int count, int64_t inner)
{
	for (int64_t k = 0; k < inner; k += TILE_INPUTS, tile += TURN_BYTES) {
		float pair[2][TILE];
		vi columns[TILE / VL][TILE];
		memset(pair, 0, sizeof pair);
		for (int j = 0; j < TILE; j++) {
			for (int second = 0; second < 2; second++) {
				int64_t row = k + 2 * j + second;
				__builtin_prefetch(x + (row + ROWS_AHEAD) * stride);
				if (row < inner)
					memcpy(pair[second], x + row * stride, 4 * count);
				else
					memset(pair[second], 0, 4 * count);
			}
			UNROLL for (int v = 0; v < TILE; v += VL)
				columns[v / VL][j] = paired(rounded((vi)load(pair[0] + v)), rounded((vi)load(pair[1] + v)));
		}
		UNROLL for (int v = 0; v < TILE; v += VL)
			for (int j = 0; j < TILE; j += VL) {
				transpose(columns[v / VL] + j);
				UNROLL for (int i = 0; i < VL; i++) *(vi_any *)(tile + 4 * (TILE * (v + i) + j)) = columns[v / VL][j + i];
			}
	}
}

// 32 columns, of which `valid` exist, of rows [0, depth) of a buffer as pairs of two rows, in whole steps padded with zeros.
static void zip_rows(char *block, const float *src, int64_t stride, int64_t depth, int valid)
{
	float both[2][PANEL];
	memset(both, 0, sizeof both);
	for (int64_t n = 0; n < tile_steps(depth) * TILE_INPUTS; n += 2, block += PAIR_BYTES) {
		const float *first = src + n * stride, *second = first + stride;
		__builtin_prefetch(src + (n + ROWS_AHEAD) * stride);
		__builtin_prefetch(src + (n + ROWS_AHEAD) * stride + PANEL - 1);
		__builtin_prefetch(src + (n + ROWS_AHEAD + 1) * stride);
		__builtin_prefetch(src + (n + ROWS_AHEAD + 1) * stride + PANEL - 1);
		if (valid < PANEL || n + 1 >= depth) {
			memset(both, 0, sizeof both);
			if (n < depth)
				memcpy(both[0], first, 4 * valid);
			if (n + 1 < depth)
				memcpy(both[1], second, 4 * valid);
			first = both[0];
			second = both[1];
		}
		UNROLL for (int c = 0; c < PANEL; c += VL)
			*(vi_any *)(block + 4 * c) = paired(rounded((vi)load(first + c)), rounded((vi)load(second + c)));
	}
}

// The same from rounded rows with a stride in bytes: pairs along rows become pairs across them. Meanwhile as many rows from `prefetch` on
// are prefetched into the second-level cache.
static void zip_rounded(char *block, const char *src, const char *prefetch, int64_t apart, int64_t depth)
{
	static const char none[2 * PANEL] = {0};
	for (int64_t n = 0; n < tile_steps(depth) * TILE_INPUTS; n += 2, block += PAIR_BYTES) {
		const char *first = n < depth ? src + n * apart : none, *second = n + 1 < depth ? src + (n + 1) * apart : none;
		__builtin_prefetch(src + (n + ROWS_AHEAD) * apart);
		__builtin_prefetch(src + (n + ROWS_AHEAD + 1) * apart);
		__builtin_prefetch(prefetch + n * apart, 0, 2);
		__builtin_prefetch(prefetch + (n + 1) * apart, 0, 2);
		for (int c = 0; c < PANEL / 2; c += VL) {
			pairs_below p = put_below(loadi(first + 4 * c), loadi(second + 4 * c));
			*(vi_any *)(block + 8 * c) = ZIP_LOW(p.even, p.odd);
			*(vi_any *)(block + 8 * c + 4 * VL) = ZIP_HIGH(p.even, p.odd);
		}
	}
}
