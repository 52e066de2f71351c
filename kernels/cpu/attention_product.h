// The small products of attention. As in every product, each number is one chain of fused
// multiply-adds in ascending order; between calls the chain is kept in memory.

// out [rows][cols] = (fresh ? 0 : out) + a·b, for b [depth][cols]; cols is a multiple of KEYS. a is either plain,
// a[i·a_stride + k], or transposed, a[k·a_stride + i]. b may be in pairs: rows 2k and 2k+1 are one row of bf16 numbers, the
// first in the high halves. Meanwhile `prefetch`, if not NULL, is prefetched: as many bytes as b has.
typedef struct {
	float *out;
	int64_t out_stride;
	const float *a;
	int64_t a_stride;
	const float *b;
	int64_t b_stride, depth, cols;
	int fresh, pairs;
	const float *prefetch;
	int64_t prefetch_step; // set by product: how far prefetch advances per step
} small_product;

// The addresses of the rows of a tile's left-hand side: of every fourth one, to save registers, and the offsets of the others.
typedef struct {
	const float *row[(MR + 3) / 4];
	int64_t one, three;
} left_rows;

INLINE float left_number(const int transposed, const left_rows *a, const int i)
{
	if (transposed)
		return a->row[0][i];
	const float *row = a->row[i / 4];
	return i % 4 == 0 ? row[0] : i % 4 == 1 ? row[a->one] : i % 4 == 2 ? row[2 * a->one] : row[a->three];
}

// One step of the chains of a tile: acc += a·b.
INLINE void product_step(const int mr, const int transposed, vf acc[MR][NV], left_rows *a, const vf b[NV])
{
	UNROLL for (int i = 0; i < mr; i++)
	{
		vf x = splat(left_number(transposed, a, i));
		UNROLL for (int v = 0; v < NV; v++) acc[i][v] = fused(b[v], x, acc[i][v]);
	}
	a->row[0] += transposed ? a->one : 1;
	if (!transposed)
		UNROLL for (int i = 1; i < (mr + 3) / 4; i++) a->row[i]++;
}

// A tile of at most this many rows is bound by memory, and prefetches two lines per step; with more rows one is enough.
enum { FEW_ROWS = MR / 2 };

#if VL == 16 && !defined(__clang__)
#define STEPS_TWICE _Pragma("GCC unroll 2")
#else
#define STEPS_TWICE
#endif

// A tile of NV vectors of columns.
INLINE void product_tile(const int mr, const int transposed, const int pairs, const small_product *p)
{
	int64_t b_stride = p->b_stride, depth = p->depth, stride = p->out_stride, prefetch_step = p->prefetch_step;
	const float *b = p->b, *prefetch = p->prefetch;
	float *out = p->out;
	left_rows a = {.one = p->a_stride, .three = 3 * p->a_stride};
	UNROLL for (int i = 0; i < (mr + 3) / 4; i++) a.row[i] = p->a + 4 * i * p->a_stride;
	vf acc[MR][NV];
	UNROLL for (int i = 0; i < mr; i++)
		UNROLL for (int v = 0; v < NV; v++) acc[i][v] = p->fresh ? splat(0) : load(out + i * stride + v * VL);
	STEPS_TWICE for (int64_t k = 0; k < depth; k += 1 + pairs, b += b_stride, prefetch += prefetch_step)
	{
		vf bv[NV];
		__builtin_prefetch(prefetch);
		if (mr <= FEW_ROWS)
			__builtin_prefetch(prefetch + 16);
		UNROLL for (int v = 0; v < NV; v++) bv[v] = pairs ? widen_first(loadi(b + v * VL)) : load(b + v * VL);
		product_step(mr, transposed, acc, &a, bv);
		if (!pairs || k + 1 == depth)
			continue;
		UNROLL for (int v = 0; v < NV; v++) bv[v] = widen_second(loadi(b + v * VL));
		product_step(mr, transposed, acc, &a, bv);
	}
	__asm__("" : "+r"(out), "+r"(stride)); // keeps the compiler from holding the addresses of all rows during the loop
	UNROLL for (int i = 0; i < mr; i++)
		UNROLL for (int v = 0; v < NV; v++) store(out + i * stride + v * VL, acc[i][v]);
}

typedef void product_function(const small_product *p);

// A transposed left-hand side is never multiplied with pairs.
enum { PLAIN, PLAIN_PAIRS, TRANSPOSED, PRODUCT_FORMS };

#define PRODUCT(mr)                                                                             \
	static void product_plain_##mr(const small_product *p) { product_tile(mr, 0, 0, p); }       \
	static void product_plain_pairs_##mr(const small_product *p) { product_tile(mr, 0, 1, p); } \
	static void product_transposed_##mr(const small_product *p) { product_tile(mr, 1, 0, p); }
PRODUCT(1) PRODUCT(2) PRODUCT(3) PRODUCT(4)
#if MR >= 6
PRODUCT(5) PRODUCT(6)
#endif
#if MR >= 14
PRODUCT(7) PRODUCT(8) PRODUCT(9) PRODUCT(10) PRODUCT(11) PRODUCT(12) PRODUCT(13) PRODUCT(14)
#endif
#undef PRODUCT

#define ALL(mr) {product_plain_##mr, product_plain_pairs_##mr, product_transposed_##mr}
static product_function *const product_functions[MR + 1][PRODUCT_FORMS] = {
	{0}, ALL(1), ALL(2), ALL(3), ALL(4),
#if MR >= 6
	ALL(5), ALL(6),
#endif
#if MR >= 14
	ALL(7), ALL(8), ALL(9), ALL(10), ALL(11), ALL(12), ALL(13), ALL(14),
#endif
};
#undef ALL

// Computes NV vectors of columns at a time for all rows, so that those columns of b stay in the first-level cache.
INLINE void product(small_product p, int64_t rows, int transposed)
{
	int64_t tiles = (rows + MR - 1) / MR, steps = (p.depth + p.pairs) >> p.pairs, lines = rows <= FEW_ROWS ? 2 : 1;
	const float *end = p.prefetch ? p.prefetch + steps * p.cols : NULL;
	small_product q = p;
	q.prefetch = p.prefetch ? p.prefetch : p.b; // a prefetch of what is in the cache costs least
	for (int64_t c = 0; c < p.cols; c += NV * VL) {
		q.b = p.b + c;
		for (int64_t t = 0; t < tiles; t++) {
			int64_t row = tile_start(rows, tiles, t), mr = tile_start(rows, tiles, t + 1) - row;
			q.out = p.out + row * p.out_stride + c;
			q.a = p.a + (transposed ? row : row * p.a_stride);
			q.prefetch_step = q.prefetch < end ? 16 * lines : 0;
			product_functions[mr][transposed ? TRANSPOSED : p.pairs ? PLAIN_PAIRS : PLAIN](&q);
			q.prefetch += q.prefetch_step * steps;
		}
	}
}
