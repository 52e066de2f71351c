// Sums over rows: first of 64 rows at a time, a thread for each column, into sums [chunks, width]; then of the chunks in ascending order,
// added to the gradient once. The order depends on the number of rows alone.
#include "kernel.h"

constexpr u32 chunk = 64;

// Rows may be a window: stride is the distance between them.
KERNEL sum_rows(float *sums, const float *dy, u32 stride, u32 width, u32 T) {
	u32 column = block_y() * threads + thread(), end = min(T, (block() + 1) * chunk);
	if (column >= width)
		return;
	float sum = 0;
	for (u32 t = block() * chunk; t < end; t++)
		sum += dy[(u64)t * stride + column];
	sums[(u64)block() * width + column] = sum;
}

// Sums dy · x · the scale of the row.
KERNEL sum_scaled_products(float *sums, const float *dy, const float *x, const float *scales, u32 width, u32 T) {
	u32 column = block_y() * threads + thread(), end = min(T, (block() + 1) * chunk);
	if (column >= width)
		return;
	float sum = 0;
	for (u32 t = block() * chunk; t < end; t++)
		sum = fma(dy[(u64)t * width + column] * scales[t], x[(u64)t * width + column], sum);
	sums[(u64)block() * width + column] = sum;
}

// grad [n] += the columns from 0 to n of sums [chunks, stride].
KERNEL add_chunks(float *grad, const float *sums, u32 stride, u32 n, u32 chunks) {
	u32 column = (u32)global_thread();
	if (column >= n)
		return;
	float sum = 0;
	for (u32 c = 0; c < chunks; c++)
		sum += sums[(u64)c * stride + column];
	grad[column] += sum;
}
