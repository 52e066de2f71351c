// Rows that are copied, and bf16 that becomes f32. A block has a row, or the next 1,024 numbers.
#include "codes.h"
#include "kernel.h"

DEVICE Four widened(const u16 *x, u64 i, u64 n) {
	Four v = 0;
	UNROLL for (u32 k = 0; k < 4; k++)
		if (i + k < n)
			v[k] = __builtin_bit_cast(float, (u32)x[i + k] << 16);
	return v;
}

// out [n, width] = the rows [n] of x.
KERNEL gather(float *out, const float *x, const int *rows, u32 width) {
	const float *from = x + (u64)rows[block()] * width;
	float *to = out + (u64)block() * width;
	bool wide = aligned(out, x) && width % 4 == 0;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads)
		put(to, i, width, wide, take(from, i, width, wide));
}

KERNEL gather_bf16(float *out, const u16 *x, const int *rows, u32 width) {
	const u16 *from = x + (u64)rows[block()] * width;
	float *to = out + (u64)block() * width;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads)
		put(to, i, width, aligned(out) && width % 4 == 0, widened(from, i, width));
}

// The rows of a matrix of four bits; all of it, in ascending order, where none are named.
KERNEL gather_codes(float *out, CODES_ARGUMENTS, const int *rows, u32 width) {
	Codes w = CODES;
	u64 from = rows ? (u64)rows[block()] : block();
	float *to = out + (u64)block() * width;
	for (u32 i = thread(); i < width; i += threads)
		to[i] = weight_of(w, width, from, i);
}

KERNEL widen_bf16(float *out, const u16 *x, u64 n) {
	u64 i = 4 * index();
	put(out, i, n, aligned(out), widened(x, i, n));
}
