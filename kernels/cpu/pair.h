// Products of bf16 numbers in pairs.
//
// The sum of a product with rounded activations is the same chain of multiply-adds in pairs as without, because each
// product of two bf16 numbers is exact in a float. Processors with AVX512_BF16 have an instruction for two steps of
// the chain: it adds the product of the high halves and then that of the low halves, each sum rounded to nearest. So
// it changes no bit, except that subnormal numbers count as zero.

// The nearest bf16 of each float, ties to even, as a float.
INLINE vi rounded(vi x)
{
	vi odd = (x >> 16) & 1;
	return (x + 0x7fff + odd) & (int32_t)0xffff0000;
}

INLINE float rounded1(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000;
	memcpy(&x, &u, 4);
	return x;
}

// The pair of two floats that are bf16 numbers.
INLINE vi paired(vi first, vi second) { return first | (vi)((vu)second >> 16); }

// Writes one half of a pair; the first half comes first.
INLINE void put_half(uint32_t *pair, int second, float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	*pair = second ? *pair | u >> 16 : u;
}

// sum + first·first + second·second, one after the other.
INLINE vf add_pairs(vf sum, vi a, vi b)
{
#if VL == 16
	__asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
	return sum;
#else
	return fused(widen_second(a), widen_second(b), fused(widen_first(a), widen_first(b), sum));
#endif
}
