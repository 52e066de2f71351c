// silu(g) · u for rows (g | u) of gate_up [T, 2 width], and its gradient. A block has the next 1,024 columns of a row.
#include "kernel.h"

// 1 / (1 + e to the −x), of which nothing gets infinite.
DEVICE float sigmoid(float x) {
	float e = exponential(x < 0 ? x : -x);
	return (x < 0 ? e : 1) / (1 + e);
}

struct Place {
	const float *g, *u;
	u32 i, t;
	bool wide;
};

DEVICE Place place(const float *gate_up, u32 width) {
	Place p;
	p.t = block();
	p.i = (block_y() * threads + thread()) * 4;
	p.g = gate_up + (u64)p.t * 2 * width;
	p.u = p.g + width;
	p.wide = aligned(gate_up) && width % 4 == 0;
	return p;
}

KERNEL swiglu(float *out, const float *gate_up, u32 width) {
	Place p = place(gate_up, width);
	Four g = take(p.g, p.i, width, p.wide), u = take(p.u, p.i, width, p.wide), v;
	UNROLL for (int k = 0; k < 4; k++)
		v[k] = g[k] * sigmoid(g[k]) * u[k];
	put(out + (u64)p.t * width, p.i, width, p.wide && aligned(out), v);
}

KERNEL swiglu_grad(float *d_gate_up, const float *d_out, const float *gate_up, u32 width) {
	Place p = place(gate_up, width);
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
