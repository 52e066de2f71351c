// Products in integers, of weights of four bits (nf4.h) with inputs that are rounded to integers: kernels.I16Rounding.
//
// A chunk is 64 inputs with one scale; the 64 weights of a row in it have one scale, too. Inputs become integers up to ±16383 and the
// 16 values integers up to ±2047, so that the sum of a chunk's products is below 2^31 and exact in any order. The chunks of a row are
// added in ascending order: sum = float(chunk) · (scale of the inputs) · scale of the weights + sum.
//
// Two integers of 16 bits form a pair in one lane, the first in the upper half, like pairs of bf16.

enum { MAX_INPUT = 16383, MAX_VALUE = 2047 };

// The largest magnitude of the 16 values.
INLINE float largest_value(const float *values)
{
	float largest = 0;
	for (int i = 0; i < 16; i++) {
		float size = values[i] < 0 ? -values[i] : values[i];
		largest = size > largest ? size : largest;
	}
	return largest;
}

// The 16 values as integers.
INLINE void integer_values(int16_t integers[16], const float *values)
{
	float largest = largest_value(values), unit = largest > 0 ? MAX_VALUE / largest : 0;
	for (int i = 0; i < 16; i++) integers[i] = __builtin_rintf(values[i] * unit);
}

// Rounds products to the nearest integers. On every machine the products are rounded to floats first: the asm keeps the compiler from
// fusing them with the addition.
INLINE vi nearest_integer(vf product)
{
	__asm__("" : IN_REGISTER(product));
	return (vi)(product + 12582912.0f) - 0x4b400000; // adding 1.5·2^23 leaves the integer in the lowest bits
}

// Packs one chunk of inputs into pairs with stride `apart`. An input that is not finite makes the scale NaN, and with it every output of
// the row; a chunk of tiny inputs counts as zero.
INLINE void pack_chunk(int32_t *pairs, int64_t apart, float *scale, const float *x, float unit)
{
	int32_t row[CHUNK / 2] = {0}, top = 0;
	vi sizes = {0};
	UNROLL for (int k = 0; k < CHUNK; k += VL)
	{
		vi size = (vi)load(x + k) & 0x7fffffff;
		sizes = (vi)blend(size > sizes, (vf)size, (vf)sizes);
	}
	UNROLL for (int i = 0; i < VL; i++) top = sizes[i] > top ? sizes[i] : top;
	float size;
	memcpy(&size, &top, 4);
	if (size >= 0x1p-100f && size < __builtin_inff()) {
		float inverse = MAX_INPUT / size;
		*scale = size * unit;
		UNROLL for (int k = 0; k < CHUNK; k += 2 * VL)
		{
			vi a = nearest_integer(load(x + k) * inverse), b = nearest_integer(load(x + k + VL) * inverse);
			*(vi_any *)(row + k / 2) = EVEN_LANES(a, b) << 16 | (ODD_LANES(a, b) & 0xffff);
		}
	} else {
		*scale = size < 0x1p-100f ? 0 : __builtin_nanf("");
	}
	for (int k = 0; k < CHUNK / 2; k++) pairs[k * apart] = row[k];
}

// Packs rows of x. A task is a tile.
static void pack_integers(const void *args, void *scratch, int64_t from, int64_t to)
{
	const grpo_pack_integers *p = args;
	float unit = largest_value(p->values) / ((float)MAX_VALUE * MAX_INPUT);
	int64_t chunks = p->inner / CHUNK;
	(void)scratch;
	for (int64_t t = from; t < to; t++) {
		int64_t row = tile_start(p->rows, p->tiles, t), height = tile_start(p->rows, p->tiles, t + 1) - row;
		int32_t *tile = p->pairs + row * (p->inner / 2);
		for (int64_t i = 0; i < height; i++)
			for (int64_t c = 0; c < chunks; c++)
				pack_chunk(tile + c * (CHUNK / 2) * height + i, height, p->scales + (row + i) * chunks + c,
				           p->x + (row + i) * p->stride + c * CHUNK, unit);
	}
}

// sum + the products of the upper halves + those of the lower halves.
INLINE vi add_integer_pairs(vi sum, vi a, vi b, const int dot)
{
#if VL == 16
	vi products;
	if (dot) {
		__asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
		return sum;
	}
	__asm__("vpmaddwd %2, %1, %0" : "=v"(products) : "v"(a), "v"(b));
	return sum + products;
#elif VL == 8
	return sum + (vi)__builtin_ia32_pmaddwd256((words)a, (words)b);
#else
	return sum + (a >> 16) * (b >> 16) + (a << 16 >> 16) * (b << 16 >> 16);
#endif
}

// Adds a chunk to the sum of a row.
INLINE vf add_chunk(vf sum, vi chunk, float scale, vf weights) 
{
	return fused(__builtin_convertvector(chunk, vf) * scale, weights, sum);
}
