// Copies rows; bf16 becomes f32. A block has a row.
#include "codes.h"
#include "kernel.h"

// out [n, width] = the rows [n] of x.
KERNEL gather(float *out, const float *x, const int *rows, u32 width) {
	const float *from = x + (u64)rows[block()] * width;
	float *to = out + (u64)block() * width;
	bool wide = aligned(out, x) && width % 4 == 0;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads)
		store_four(to, i, width, wide, load_four(from, i, width, wide));
}

KERNEL gather_bf16(float *out, const u16 *x, const int *rows, u32 width) {
	const u16 *from = x + (u64)rows[block()] * width;
	float *to = out + (u64)block() * width;
	bool wide = aligned(out, x) && width % 4 == 0;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads)
		store_four(to, i, width, wide, load_four(from, i, width, wide));
}

// The rows of a 4-bit matrix; without a list of rows, all in ascending order.
KERNEL gather_codes(float *out, CODES_ARGUMENTS, const int *rows, u32 width) {
	Codes w = CODES;
	u64 from = rows ? (u64)rows[block()] : block();
	float *to = out + (u64)block() * width;
	for (u32 i = thread(); i < width; i += threads)
		to[i] = weight_of(w, width, from, i);
}
