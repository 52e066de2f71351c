// (weight − minus_offset) · x / sqrt(mean(x²) + eps), and its gradients. minus_offset is −1 for models that store weight − 1. A block has
// a row [width], of which a thread has four numbers of each 1,024. x is f32 or bf16.
#include "kernel.h"

// Groups of four numbers of a row that a thread keeps in registers, with their weights, so that all are loaded at once.
constexpr u32 groups = 4;

// norm_in_registers is for rows that fit in registers. It has no branch, so no load waits for the one before.
template <class Number>
DEVICE void norm_in_registers(float *out, const Number *x, const float *weight, float eps, float minus_offset, u32 width) {
	Four v[groups], w[groups];
	float squares = 0;
	UNROLL for (u32 n = 0; n < groups; n++) {
		u32 at = 4 * (thread() + n * threads), from = at < width ? at : 0;
		v[n] = load_four(x, from, from + 4, true), w[n] = load_four(weight, from, from + 4, true);
		v[n] = at < width ? v[n] : 0; // adds nothing to the sum
	}
	UNROLL for (u32 n = 0; n < groups; n++)
		UNROLL for (int k = 0; k < 4; k++)
			squares = fma(v[n][k], v[n][k], squares);
	float r = inverse_rms(over_block(squares), width, eps);
	UNROLL for (u32 n = 0; n < groups; n++)
		if (u32 at = 4 * (thread() + n * threads); at < width)
			store_four(out, at, at + 4, true, (w[n] - minus_offset) * (v[n] * r));
}

template <class Number> DEVICE void norm(float *out, const Number *x, const float *weight, float eps, float minus_offset, u32 width) {
	x += (u64)block() * width, out += (u64)block() * width;
	bool wide = aligned(out, x, weight) && width % 4 == 0;
	if (wide && width <= groups * 4 * threads)
		return norm_in_registers(out, x, weight, eps, minus_offset, width);
	float squares = 0;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads) {
		Four v = load_four(x, i, width, wide);
		UNROLL for (int k = 0; k < 4; k++)
			squares = fma(v[k], v[k], squares);
	}
	float r = inverse_rms(over_block(squares), width, eps);
	for (u32 i = 4 * thread(); i < width; i += 4 * threads)
		store_four(out, i, width, wide, (load_four(weight, i, width, wide) - minus_offset) * (load_four(x, i, width, wide) * r));
}

// With r as above: dx = r · dy · weight − r³ · mean(dy · weight · x) · x.
template <class Number>
DEVICE void norm_grad_x(float *dx, const float *dy, const Number *x, const float *weight, float eps, float minus_offset, u32 width) {
	x += (u64)block() * width, dy += (u64)block() * width, dx += (u64)block() * width;
	bool wide = aligned(dx, dy, x, weight) && width % 4 == 0;
	float squares = 0, dot = 0;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads) {
		Four v = load_four(x, i, width, wide), d = load_four(dy, i, width, wide) * (load_four(weight, i, width, wide) - minus_offset);
		UNROLL for (int k = 0; k < 4; k++) {
			squares = fma(v[k], v[k], squares);
			dot = fma(d[k], v[k], dot);
		}
	}
	float r = inverse_rms(over_block(squares), width, eps), correction = over_block(dot) / (float)width * r * r;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads) {
		Four v = load_four(x, i, width, wide), d = load_four(dy, i, width, wide) * (load_four(weight, i, width, wide) - minus_offset);
		UNROLL for (int k = 0; k < 4; k++)
			d[k] = r * fma(-correction, v[k], d[k]);
		store_four(dx, i, width, wide, d);
	}
}

#define NORM(Number, suffix) \
	KERNEL rms_norm##suffix(float *out, const Number *x, const float *weight, float eps, float minus_offset, u32 width) { \
		norm(out, x, weight, eps, minus_offset, width); \
	} \
	KERNEL rms_norm_grad_x##suffix(float *dx, const float *dy, const Number *x, const float *weight, float eps, \
		float minus_offset, u32 width) { \
		norm_grad_x(dx, dy, x, weight, eps, minus_offset, width); \
	}
NORM(float, )
NORM(u16, _bf16)

// r [T], which the gradient of the weight needs for all rows.
KERNEL row_scales(float *scales, const float *x, float eps, u32 width) {
	x += (u64)block() * width;
	bool wide = aligned(x) && width % 4 == 0;
	float squares = 0;
	for (u32 i = 4 * thread(); i < width; i += 4 * threads) {
		Four v = load_four(x, i, width, wide);
		UNROLL for (int k = 0; k < 4; k++)
			squares = fma(v[k], v[k], squares);
	}
	float r = inverse_rms(over_block(squares), width, eps);
	if (thread() == 0)
		scales[block()] = r;
}
