// (weight − less) · x / sqrt(mean(x²) + eps), and its gradients; less is negative if weights are stored without an offset. A block has a
// row [width]: a thread four numbers of each 1,024. x is f32 or bf16.
#include "kernel.h"

// Groups of four numbers of a row that a thread keeps in registers, with their weights, so that all are loaded at once.
constexpr u32 held = 4;

// norm_held is for rows that fit in registers. It has no branch, so no load waits for the one before.
template <class N> DEVICE void norm_held(float *out, const N *x, const float *weight, float eps, float less, u32 width) {
	Four v[held], w[held];
	float squares = 0;
	UNROLL for (u32 n = 0; n < held; n++) {
		u32 at = 4 * (thread() + n * threads), from = at < width ? at : 0;
		v[n] = take(x, from, from + 4, true), w[n] = take(weight, from, from + 4, true);
		v[n] = at < width ? v[n] : 0; // adds nothing to the sum
	}
	UNROLL for (u32 n = 0; n < held; n++)
		UNROLL for (int k = 0; k < 4; k++)
			squares = fma(v[n][k], v[n][k], squares);
	float r = inverse_rms(over_block(squares), width, eps);
	UNROLL for (u32 n = 0; n < held; n++)
		if (u32 at = 4 * (thread() + n * threads); at < width)
			put(out, at, at + 4, true, (w[n] - less) * (v[n] * r));
}

template <class N> DEVICE void norm(float *out, const N *x, const float *weight, float eps, float less, u32 width) {
	x += (u64)block() * width, out += (u64)block() * width;
	bool wide = aligned(out, x, weight) && width % 4 == 0;
	if (wide && width <= held * 4 * threads)
		return norm_held(out, x, weight, eps, less, width);
	float squares = 0;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads) {
		Four v = take(x, i, width, wide);
		UNROLL for (int k = 0; k < 4; k++)
			squares = fma(v[k], v[k], squares);
	}
	float r = inverse_rms(over_block(squares), width, eps);
	for (u32 i = 4 * thread(); i < width; i += 4 * threads)
		put(out, i, width, wide, (take(weight, i, width, wide) - less) * (take(x, i, width, wide) * r));
}

// With r as above: dx = r · dy · weight − r³ · mean(dy · weight · x) · x.
template <class N>
DEVICE void norm_grad_x(float *dx, const float *dy, const N *x, const float *weight, float eps, float less, u32 width) {
	x += (u64)block() * width, dy += (u64)block() * width, dx += (u64)block() * width;
	bool wide = aligned(dx, dy, x, weight) && width % 4 == 0;
	float squares = 0, along = 0;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads) {
		Four v = take(x, i, width, wide), d = take(dy, i, width, wide) * (take(weight, i, width, wide) - less);
		UNROLL for (int k = 0; k < 4; k++) {
			squares = fma(v[k], v[k], squares);
			along = fma(d[k], v[k], along);
		}
	}
	float r = inverse_rms(over_block(squares), width, eps), back = over_block(along) / (float)width * r * r;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads) {
		Four v = take(x, i, width, wide), d = take(dy, i, width, wide) * (take(weight, i, width, wide) - less);
		UNROLL for (int k = 0; k < 4; k++)
			d[k] = r * fma(-back, v[k], d[k]);
		put(dx, i, width, wide, d);
	}
}

#define NORM(N, of) \
	KERNEL rms_norm##of(float *out, const N *x, const float *weight, float eps, float less, u32 width) { \
		norm(out, x, weight, eps, less, width); \
	} \
	KERNEL rms_norm_grad_x##of(float *dx, const float *dy, const N *x, const float *weight, float eps, float less, u32 width) { \
		norm_grad_x(dx, dy, x, weight, eps, less, width); \
	}
NORM(float, )
NORM(u16, _bf16)

// r [T], which the gradient of the weight needs for all rows.
KERNEL row_scales(float *scales, const float *x, float eps, u32 width) {
	x += (u64)block() * width;
	bool wide = aligned(x) && width % 4 == 0;
	float squares = 0;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads) {
		Four v = take(x, i, width, wide);
		UNROLL for (int k = 0; k < 4; k++)
			squares = fma(v[k], v[k], squares);
	}
	float r = inverse_rms(over_block(squares), width, eps);
	if (thread() == 0)
		scales[block()] = r;
}
