// The small products of attention. Like every product here, each number is one chain of fused
// multiply-adds in ascending order; between calls the chain waits in memory.

// out [rows][cols] = (fresh ? 0 : out) + a·b, for b [depth][cols]; cols is a multiple of KEYS. a is either
// transposed, a[k·a_step + i], or plain with rows of KEYS numbers, a[i·KEYS + k]. b may lie in pairs: rows 2k and 2k+1
// are one row of bf16 numbers, the first in the high halves. Meanwhile it prefetches what will be read soon: as many
// bytes as b has.
typedef struct {
	float *out;
	int64_t out_stride;
	const float *a;
	int64_t a_step;
	const float *b;
	int64_t b_stride, depth, cols;
	int fresh, pairs;
	const float *soon;
} small_product;

// One step of the chains of a tile: acc += a·b.
INLINE void product_step(const int mr, const int transposed, vf acc[MR][NV], const float *a, const vf b[NV])
{
	UNROLL for (int i = 0; i < mr; i++)
		UNROLL for (int v = 0; v < NV; v++) acc[i][v] = fused(b[v], splat(a[transposed ? i : i * KEYS]), acc[i][v]);
}

INLINE void product_tile(const int mr, const int transposed, const int pairs, const small_product *p)
{
	int64_t a_step = transposed ? p->a_step : 1, b_stride = p->b_stride, depth = p->depth;
	const float *soon = p->soon;
	for (int64_t c = 0; c < p->cols; c += NV * VL) {
		vf acc[MR][NV];
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < NV; v++)
				acc[i][v] = p->fresh ? splat(0) : load(p->out + i * p->out_stride + c + v * VL);
		const float *a = p->a, *b = p->b + c;
		for (int64_t k = 0; k < depth; k += 1 + pairs, a += a_step, b += b_stride, soon += NV * VL) {
			vf bv[NV];
			UNROLL for (int v = 0; v < NV * VL; v += 16) __builtin_prefetch(soon + v);
			UNROLL for (int v = 0; v < NV; v++) bv[v] = pairs ? widen_first(loadi(b + v * VL)) : load(b + v * VL);
			product_step(mr, transposed, acc, a, bv);
			if (!pairs || k + 1 == depth)
				continue;
			a += a_step;
			UNROLL for (int v = 0; v < NV; v++) bv[v] = widen_second(loadi(b + v * VL));
			product_step(mr, transposed, acc, a, bv);
		}
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < NV; v++) store(p->out + i * p->out_stride + c + v * VL, acc[i][v]);
	}
}

typedef void product_function(const small_product *p);

#define PRODUCT(mr)                                                                                        \
	static void product_plain_##mr(const small_product *p) { product_tile(mr, 0, 0, p); }                  \
	static void product_plain_pairs_##mr(const small_product *p) { product_tile(mr, 0, 1, p); }            \
	static void product_transposed_##mr(const small_product *p) { product_tile(mr, 1, 0, p); }             \
	static void product_transposed_pairs_##mr(const small_product *p) { product_tile(mr, 1, 1, p); }
PRODUCT(1) PRODUCT(2) PRODUCT(3) PRODUCT(4)
#if MR >= 6
PRODUCT(5) PRODUCT(6)
#endif
#if MR >= 14
PRODUCT(7) PRODUCT(8) PRODUCT(9) PRODUCT(10) PRODUCT(11) PRODUCT(12) PRODUCT(13) PRODUCT(14)
#endif
#undef PRODUCT

#define ALL(mr) {{product_plain_##mr, product_plain_pairs_##mr}, {product_transposed_##mr, product_transposed_pairs_##mr}}
static product_function *const product_functions[MR + 1][2][2] = {
	{{0}}, ALL(1), ALL(2), ALL(3), ALL(4),
#if MR >= 6
	ALL(5), ALL(6),
#endif
#if MR >= 14
	ALL(7), ALL(8), ALL(9), ALL(10), ALL(11), ALL(12), ALL(13), ALL(14),
#endif
};
#undef ALL

INLINE void product(small_product p, int64_t rows, int transposed)
{
	int64_t tiles = (rows + MR - 1) / MR;
	float *out = p.out;
	const float *a = p.a;
	if (!p.soon)
		p.soon = p.b; // a prefetch of what is there costs least
	for (int64_t t = 0; t < tiles; t++) {
		int64_t row = tile_start(rows, tiles, t), mr = tile_start(rows, tiles, t + 1) - row;
		p.out = out + row * p.out_stride;
		p.a = a + (transposed ? row : row * KEYS);
		product_functions[mr][transposed][p.pairs](&p);
	}
}
