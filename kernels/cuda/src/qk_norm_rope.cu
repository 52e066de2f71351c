// Each query and key head of a row of qkv is normalised (weights qw, kw) and rotated by the row's angles; value heads are copied. A warp
// has a head: each lane the pairs (i, i + dim/2) for every 32nd i. Rows are f32; those stored for the gradient may be bf16.
#include "kernel.h"

// A head of a row. Values have no weights.
struct Head {
	u64 offset;  // of its first number
	u32 t, half; // row, and pairs of the head
	const float *weights;
	const float *rotation; // cosines, then sines
};

struct Shape {
	u32 queries, keys, dim;
};

// Finds the head of this warp; false if there is none left.
DEVICE bool find_head(Head *head, Shape shape, const float *qw, const float *kw, const float *rope, u32 T) {
	u32 heads = shape.queries + 2 * shape.keys;
	u64 n = global_thread() / 32;
	u32 head_index = (u32)(n % heads);
	head->t = (u32)(n / heads), head->half = shape.dim / 2, head->offset = n * shape.dim;
	head->weights = head_index < shape.queries ? qw : head_index < shape.queries + shape.keys ? kw : 0;
	head->rotation = rope + (u64)head->t * shape.dim;
	return head->t < T;
}

// 1 / sqrt(mean(x²) + eps) of a head, for all lanes of its warp.
template <class Number> DEVICE float head_scale(const Number *x, u32 half, float eps) {
	float squares = 0;
	for (u32 i = lane(); i < half; i += 32) {
		float a = load_one(x, i), b = load_one(x, i + half);
		squares = fma(a, a, fma(b, b, squares));
	}
	return inverse_rms(over_warp(squares), 2 * half, eps);
}

template <class Number> DEVICE void copy_head(float *to, const Number *from, u32 half) {
	for (u32 i = lane(); i < 2 * half; i += 32)
		to[i] = load_one(from, i);
}

template <class Number>
DEVICE void norm_and_rotate(float *out, const Number *qkv, const float *qw, const float *kw, const float *rope, float eps, u32 queries,
	u32 keys, u32 dim, u32 T) {
	Head head;
	if (!find_head(&head, Shape{queries, keys, dim}, qw, kw, rope, T))
		return;
	const Number *x = qkv + head.offset;
	float *y = out + head.offset;
	if (!head.weights)
		return copy_head(y, x, head.half);
	float r = head_scale(x, head.half, eps);
	for (u32 i = lane(); i < head.half; i += 32) {
		float a = head.weights[i] * (load_one(x, i) * r), b = head.weights[i + head.half] * (load_one(x, i + head.half) * r);
		float cos = head.rotation[i], sin = head.rotation[i + head.half];
		y[i] = fma(a, cos, -(b * sin));
		y[i + head.half] = fma(b, cos, a * sin);
	}
}

// Rotates queries and keys without a norm; by the negated angles if back is set.
template <class Number>
DEVICE void rotate(float *out, const Number *x, const float *rope, u32 back, u32 queries, u32 keys, u32 dim, u32 T) {
	Head head;
	if (!find_head(&head, Shape{queries, keys, dim}, rope, rope, rope, T)) // rope is passed as weights, which are not used
		return;
	x += head.offset, out += head.offset;
	if (!head.weights)
		return copy_head(out, x, head.half);
	for (u32 i = lane(); i < head.half; i += 32) {
		float a = load_one(x, i), b = load_one(x, i + head.half);
		float cos = head.rotation[i], sin = back ? -head.rotation[i + head.half] : head.rotation[i + head.half];
		out[i] = fma(a, cos, -(b * sin));
		out[i + head.half] = fma(b, cos, a * sin);
	}
}

// A pair of gradients of a head, rotated backwards.
struct Pair {
	float a, b;
};

DEVICE Pair rotated_back(const float *dy, const float *rotation, u32 i, u32 half) {
	float a = dy[i], b = dy[i + half], cos = rotation[i], sin = rotation[i + half];
	return Pair{fma(a, cos, b * sin), fma(b, cos, -(a * sin))};
}

// With r the scale of a head and d the gradient of its norm's output: dx = r · d · w − r³ · mean(d · w · x) · x.
template <class Number>
DEVICE void norm_and_rotate_grad_x(float *dqkv, const float *dout, const Number *qkv, const float *qw, const float *kw, const float *rope,
	float eps, u32 queries, u32 keys, u32 dim, u32 T) {
	Head head;
	if (!find_head(&head, Shape{queries, keys, dim}, qw, kw, rope, T))
		return;
	const Number *x = qkv + head.offset;
	const float *dy = dout + head.offset;
	float *dx = dqkv + head.offset;
	if (!head.weights)
		return copy_head(dx, dy, head.half);
	float r = head_scale(x, head.half, eps), dot = 0;
	for (u32 i = lane(); i < head.half; i += 32) {
		Pair d = rotated_back(dy, head.rotation, i, head.half);
		dot = fma(d.a * head.weights[i], load_one(x, i), fma(d.b * head.weights[i + head.half], load_one(x, i + head.half), dot));
	}
	float correction = over_warp(dot) / (float)dim * r * r;
	for (u32 i = lane(); i < head.half; i += 32) {
		Pair d = rotated_back(dy, head.rotation, i, head.half);
		dx[i] = r * fma(-correction, load_one(x, i), d.a * head.weights[i]);
		dx[i + head.half] = r * fma(-correction, load_one(x, i + head.half), d.b * head.weights[i + head.half]);
	}
}

#define HEADS(Number, suffix) \
	KERNEL qk_norm_rope##suffix(float *out, const Number *qkv, const float *qw, const float *kw, const float *rope, float eps, u32 queries, \
		u32 keys, u32 dim, u32 T) { \
		norm_and_rotate(out, qkv, qw, kw, rope, eps, queries, keys, dim, T); \
	} \
	KERNEL rope##suffix(float *out, const Number *x, const float *angles, u32 correction, u32 queries, u32 keys, u32 dim, u32 T) { \
		rotate(out, x, angles, correction, queries, keys, dim, T); \
	} \
	KERNEL qk_norm_rope_grad_x##suffix(float *dqkv, const float *dout, const Number *qkv, const float *qw, const float *kw, \
		const float *rope, float eps, u32 queries, u32 keys, u32 dim, u32 T) { \
		norm_and_rotate_grad_x(dqkv, dout, qkv, qw, kw, rope, eps, queries, keys, dim, T); \
	}
HEADS(float, )
HEADS(u16, _bf16)

// The scales [T, queries + 2 keys] of all heads, including those of values, which are not used.
KERNEL head_scales(float *scales, const float *qkv, float eps, u32 heads, u32 dim, u32 T) {
	u64 n = global_thread() / 32;
	if (n >= (u64)heads * T)
		return;
	float r = head_scale(qkv + n * dim, dim / 2, eps);
	if (lane() == 0)
		scales[n] = r;
}

// The gradient of the weights: a block sums 16 rows into sums [chunks, 2, dim], queries first; column_sums.cu adds the chunks. A thread
// has a column, and adds its heads and rows in ascending order.
constexpr u32 chunk = 16;

KERNEL sum_turned_products(float *sums, const float *dout, const float *qkv, const float *rope, const float *scales, u32 queries,
	u32 keys, u32 dim, u32 T) {
	u32 column = block_y() * threads + thread(), heads = queries + 2 * keys, half = dim / 2;
	if (column >= 2 * dim)
		return;
	bool of_keys = column >= dim;
	u32 i = of_keys ? column - dim : column, pair = i % half;
	u32 first = of_keys ? queries : 0, last = of_keys ? queries + keys : queries;
	u32 end = (block() + 1) * chunk;
	float sum = 0;
	for (u32 t = block() * chunk; t < end && t < T; t++)
		for (u32 n = first; n < last; n++) {
			u64 row = (u64)t * heads + n;
			Pair d = rotated_back(dout + row * dim, rope + (u64)t * dim, pair, half);
			sum = fma((i < half ? d.a : d.b) * scales[row], qkv[row * dim + i], sum);
		}
	sums[(u64)block() * 2 * dim + column] = sum;
}
