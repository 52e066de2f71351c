// silu(g) · u and gelu(g) · u for rows (g | u) of gate_up [T, 2 width], and their gradients. A block has the next 1,024 columns of a row.
#include "kernel.h"

// 1 / (1 + e^−x), without overflow.
DEVICE float sigmoid(float x) {
	float e = exponential(x < 0 ? x : -x);
	return (x < 0 ? e : 1) / (1 + e);
}

// Rows are f32 or bf16.
template <class N> struct Place {
	const N *g, *u;
	u32 i, t;
	bool wide;
};

template <class N> DEVICE Place<N> place(const N *gate_up, u32 width) {
	Place<N> p;
	p.t = block();
	p.i = (block_y() * threads + thread()) * 4;
	p.g = gate_up + (u64)p.t * 2 * width;
	p.u = p.g + width;
	p.wide = aligned(gate_up) && width % 4 == 0;
	return p;
}

template <class N> DEVICE void swiglu_of(float *out, const N *gate_up, u32 width) {
	Place<N> p = place(gate_up, width);
	Four g = take(p.g, p.i, width, p.wide), u = take(p.u, p.i, width, p.wide), v;
	UNROLL for (int k = 0; k < 4; k++)
		v[k] = g[k] * sigmoid(g[k]) * u[k];
	put(out + (u64)p.t * width, p.i, width, p.wide && aligned(out), v);
}

template <class N> DEVICE void swiglu_grad_of(float *d_gate_up, const float *d_out, const N *gate_up, u32 width) {
	Place<N> p = place(gate_up, width);
	Four d = take(d_out + (u64)p.t * width, p.i, width, p.wide && aligned(d_out));
	Four g = take(p.g, p.i, width, p.wide), u = take(p.u, p.i, width, p.wide), dg, du;
	UNROLL for (int k = 0; k < 4; k++) {
		float s = sigmoid(g[k]);
		dg[k] = d[k] * u[k] * (s * fma(g[k], 1 - s, 1));
		du[k] = d[k] * (g[k] * s);
	}
	float *to = d_gate_up + (u64)p.t * 2 * width;
	put(to, p.i, width, p.wide && aligned(d_gate_up), dg);
	put(to + width, p.i, width, p.wide && aligned(d_gate_up), du);
}

// The tanh form of gelu is g times the sigmoid of this, whose derivative is slope.
DEVICE float inner(float g, float *slope) {
	const float c = 1.59576912f, cubic = 0.0713548163f; // 2·sqrt(2/π), and 0.044715 times that
	float square = g * g;
	*slope = fma(square, 3 * cubic, c);
	return g * fma(square, cubic, c);
}

template <class N> DEVICE void geglu_of(float *out, const N *gate_up, u32 width) {
	Place<N> p = place(gate_up, width);
	Four g = take(p.g, p.i, width, p.wide), u = take(p.u, p.i, width, p.wide), v;
	UNROLL for (int k = 0; k < 4; k++) {
		float slope;
		v[k] = g[k] * sigmoid(inner(g[k], &slope)) * u[k];
	}
	put(out + (u64)p.t * width, p.i, width, p.wide && aligned(out), v);
}

template <class N> DEVICE void geglu_grad_of(float *d_gate_up, const float *d_out, const N *gate_up, u32 width) {
	Place<N> p = place(gate_up, width);
	Four d = take(d_out + (u64)p.t * width, p.i, width, p.wide && aligned(d_out));
	Four g = take(p.g, p.i, width, p.wide), u = take(p.u, p.i, width, p.wide), dg, du;
	UNROLL for (int k = 0; k < 4; k++) {
		float slope, z = inner(g[k], &slope), s = sigmoid(z), rest = sigmoid(-z); // rest is 1 − s, but exact near 0, too
		dg[k] = d[k] * u[k] * fma(g[k] * s * rest, slope, s);
		du[k] = d[k] * (g[k] * s);
	}
	float *to = d_gate_up + (u64)p.t * 2 * width;
	put(to, p.i, width, p.wide && aligned(d_gate_up), dg);
	put(to + width, p.i, width, p.wide && aligned(d_gate_up), du);
}

#define GATE(name, N, of) \
	KERNEL name##of(float *out, const N *gate_up, u32 width) { name##_of(out, gate_up, width); } \
	KERNEL name##_grad##of(float *d_gate_up, const float *d_out, const N *gate_up, u32 width) { \
		name##_grad_of(d_gate_up, d_out, gate_up, width); \
	}
GATE(swiglu, float, )
GATE(swiglu, u16, _bf16)
GATE(geglu, float, )
GATE(geglu, u16, _bf16)
