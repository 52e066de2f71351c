// The small products of attention. Like every product here, each number is one chain of fused
// multiply-adds in ascending order; between calls the chain waits in memory.

// out [rows][cols] = (fresh ? 0 : out) + a·b, for b [depth][cols]; cols is a multiple of KEYS. a is either
// transposed, a[k·a_step + i], or plain with rows of KEYS numbers, a[i·KEYS + k]. Meanwhile it prefetches what
// will be read soon: as many bytes as b has.
typedef struct {
	float *out;
	int64_t out_stride;
	const float *a;
	int64_t a_step;
	const float *b;
	int64_t b_stride, depth, cols;
	int fresh;
	const float *soon;
} small_product;

INLINE void product_tile(const int mr, const int transposed, const small_product *p)
{
	int64_t a_step = transposed ? p->a_step : 1, b_stride = p->b_stride, depth = p->depth;
	const float *soon = p->soon;
	for (int64_t c = 0; c < p->cols; c += NV * VL) {
		vf acc[MR][NV];
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < NV; v++)
				acc[i][v] = p->fresh ? splat(0) : load(p->out + i * p->out_stride + c + v * VL);
		const float *a = p->a, *b = p->b + c;
		for (int64_t k = 0; k < depth; k++, a += a_step, b += b_stride, soon += NV * VL) {
			vf bv[NV];
			UNROLL for (int v = 0; v < NV * VL; v += 16) __builtin_prefetch(soon + v);
			UNROLL for (int v = 0; v < NV; v++) bv[v] = load(b + v * VL);
			UNROLL for (int i = 0; i < mr; i++)
				UNROLL for (int v = 0; v < NV; v++) acc[i][v] += bv[v] * a[transposed ? i : i * KEYS];
		}
		UNROLL for (int i = 0; i < mr; i++)
			UNROLL for (int v = 0; v < NV; v++) store(p->out + i * p->out_stride + c + v * VL, acc[i][v]);
	}
}

typedef void product_function(const small_product *p);

#define PRODUCT(mr)                                                                           \
	static void product_plain_##mr(const small_product *p) { product_tile(mr, 0, p); }        \
	static void product_transposed_##mr(const small_product *p) { product_tile(mr, 1, p); }
PRODUCT(1) PRODUCT(2) PRODUCT(3) PRODUCT(4)
#if MR >= 6
PRODUCT(5) PRODUCT(6)
#endif
#if MR >= 14
PRODUCT(7) PRODUCT(8) PRODUCT(9) PRODUCT(10) PRODUCT(11) PRODUCT(12) PRODUCT(13) PRODUCT(14)
#endif
#undef PRODUCT

#define BOTH(mr) {product_plain_##mr, product_transposed_##mr}
static product_function *const product_functions[MR + 1][2] = {
	{0}, BOTH(1), BOTH(2), BOTH(3), BOTH(4),
#if MR >= 6
	BOTH(5), BOTH(6),
#endif
#if MR >= 14
	BOTH(7), BOTH(8), BOTH(9), BOTH(10), BOTH(11), BOTH(12), BOTH(13), BOTH(14),
#endif
};
#undef BOTH

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
		product_functions[mr][transposed](&p);
	}
}
