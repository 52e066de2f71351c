// Each query and key head of a row of qkv is normalised (weights qw, kw) and rotated by the row's angles; value heads are copied. A warp
// has a head: each lane the pairs (i, i + dim/2) for every 32nd i. Rows are f32; those stored for the gradient may be bf16.
#include "kernel.h"

// A head of a row, and the weights of its norm: none for values.
struct Head {
	u64 at;             // of its first number
	u32 t, half;        // row, and pairs of the head
	const float *w;
	const float *turns; // cosines, then sines
};

struct Shape {
	u32 queries, keys, dim;
};

// Finds the head of this warp; false if there is none left.
DEVICE bool head(Head *h, Shape s, const float *qw, const float *kw, const float *rope, u32 T) {
	u32 heads = s.queries + 2 * s.keys;
	u64 n = index() / 32;
	u32 which = (u32)(n % heads);
	h->t = (u32)(n / heads), h->half = s.dim / 2, h->at = n * s.dim;
	h->w = which < s.queries ? qw : which < s.queries + s.keys ? kw : 0;
	h->turns = rope + (u64)h->t * s.dim;
	return h->t < T;
}

// 1 / sqrt(mean(x²) + eps) of a head, for all lanes of its warp.
template <class N> DEVICE float head_scale(const N *x, u32 half, float eps) {
	float squares = 0;
	for (u32 i = lane(); i < half; i += 32) {
		float a = take_one(x, i), b = take_one(x, i + half);
		squares = fma(a, a, fma(b, b, squares));
	}
	return inverse_rms(over_warp(squares), 2 * half, eps);
}

template <class N> DEVICE void copy_head(float *to, const N *from, u32 half) {
	for (u32 i = lane(); i < 2 * half; i += 32)
		to[i] = take_one(from, i);
}

template <class N>
DEVICE void norm_and_turn(float *out, const N *qkv, const float *qw, const float *kw, const float *rope, float eps, u32 queries, u32 keys,
	u32 dim, u32 T) {
	Head h;
	if (!head(&h, Shape{queries, keys, dim}, qw, kw, rope, T))
		return;
	const N *x = qkv + h.at;
	float *y = out + h.at;
	if (!h.w)
		return copy_head(y, x, h.half);
	float r = head_scale(x, h.half, eps);
	for (u32 i = lane(); i < h.half; i += 32) {
		float a = h.w[i] * (take_one(x, i) * r), b = h.w[i + h.half] * (take_one(x, i + h.half) * r), c = h.turns[i], s = h.turns[i + h.half];
		y[i] = fma(a, c, -(b * s));
		y[i + h.half] = fma(b, c, a * s);
	}
}

// Rotates queries and keys without a norm; backwards if back is set.
template <class N> DEVICE void turn(float *out, const N *x, const float *rope, u32 back, u32 queries, u32 keys, u32 dim, u32 T) {
	Head h;
	if (!head(&h, Shape{queries, keys, dim}, rope, rope, rope, T)) // rope is passed as weights, which are not used
		return;
	x += h.at, out += h.at;
	if (!h.w)
		return copy_head(out, x, h.half);
	for (u32 i = lane(); i < h.half; i += 32) {
		float a = take_one(x, i), b = take_one(x, i + h.half), c = h.turns[i], s = back ? -h.turns[i + h.half] : h.turns[i + h.half];
		out[i] = fma(a, c, -(b * s));
		out[i + h.half] = fma(b, c, a * s);
	}
}

// A pair of gradients of a head, rotated backwards.
struct Pair {
	float a, b;
};

DEVICE Pair turned_back(const float *dy, const float *turns, u32 i, u32 half) {
	float a = dy[i], b = dy[i + half], c = turns[i], s = turns[i + half];
	return Pair{fma(a, c, b * s), fma(b, c, -(a * s))};
}

// With r the scale of a head and d the gradient of its norm's output: dx = r · d · w − r³ · mean(d · w · x) · x.
template <class N>
DEVICE void norm_and_turn_grad_x(float *dqkv, const float *dout, const N *qkv, const float *qw, const float *kw, const float *rope,
	float eps, u32 queries, u32 keys, u32 dim, u32 T) {
	Head h;
	if (!head(&h, Shape{queries, keys, dim}, qw, kw, rope, T))
		return;
	const N *x = qkv + h.at;
	const float *dy = dout + h.at;
	float *dx = dqkv + h.at;
	if (!h.w)
		return copy_head(dx, dy, h.half);
	float r = head_scale(x, h.half, eps), along = 0;
	for (u32 i = lane(); i < h.half; i += 32) {
		Pair d = turned_back(dy, h.turns, i, h.half);
		along = fma(d.a * h.w[i], take_one(x, i), fma(d.b * h.w[i + h.half], take_one(x, i + h.half), along));
	}
	float back = over_warp(along) / (float)dim * r * r;
	for (u32 i = lane(); i < h.half; i += 32) {
		Pair d = turned_back(dy, h.turns, i, h.half);
		dx[i] = r * fma(-back, take_one(x, i), d.a * h.w[i]);
		dx[i + h.half] = r * fma(-back, take_one(x, i + h.half), d.b * h.w[i + h.half]);
	}
}

#define HEADS(N, of) \
	KERNEL qk_norm_rope##of(float *out, const N *qkv, const float *qw, const float *kw, const float *rope, float eps, u32 queries, \
		u32 keys, u32 dim, u32 T) { \
		norm_and_turn(out, qkv, qw, kw, rope, eps, queries, keys, dim, T); \
	} \
	KERNEL rope##of(float *out, const N *x, const float *angles, u32 back, u32 queries, u32 keys, u32 dim, u32 T) { \
		turn(out, x, angles, back, queries, keys, dim, T); \
	} \
	KERNEL qk_norm_rope_grad_x##of(float *dqkv, const float *dout, const N *qkv, const float *qw, const float *kw, const float *rope, \
		float eps, u32 queries, u32 keys, u32 dim, u32 T) { \
		norm_and_turn_grad_x(dqkv, dout, qkv, qw, kw, rope, eps, queries, keys, dim, T); \
	}
HEADS(float, )
HEADS(u16, _bf16)

// The scales [T, queries + 2 keys] of all heads, including those of values, which are not used.
KERNEL head_scales(float *scales, const float *qkv, float eps, u32 heads, u32 dim, u32 T) {
	u64 n = index() / 32;
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
			Pair d = turned_back(dout + row * dim, rope + (u64)t * dim, pair, half);
			sum = fma((i < half ? d.a : d.b) * scales[row], qkv[row * dim + i], sum);
		}
	sums[(u64)block() * 2 * dim + column] = sum;
}
