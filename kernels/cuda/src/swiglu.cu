// silu(gate) · up and gelu(gate) · up for rows (gate | up) of gate_up [T, 2 width], and their gradients. A block has 1,024
// columns of a row.
#include "kernel.h"

// 1 / (1 + e^−x), without overflow.
DEVICE float sigmoid(float x) {
	float e = exponential(x < 0 ? x : -x);
	return (x < 0 ? e : 1) / (1 + e);
}

// A thread's four columns of a row of gates and of the row of ups. Numbers are f32 or bf16.
template <class Number> struct GateUp {
	const Number *gate, *up;
	u32 column, row;
	bool wide;
};

template <class Number> DEVICE GateUp<Number> gate_up_at(const Number *gate_up, u32 width) {
	GateUp<Number> in;
	in.row = block();
	in.column = (block_y() * threads + thread()) * 4;
	in.gate = gate_up + (u64)in.row * 2 * width;
	in.up = in.gate + width;
	in.wide = aligned(gate_up) && width % 4 == 0;
	return in;
}

template <class Number> DEVICE void swiglu_of(float *out, const Number *gate_up, u32 width) {
	GateUp<Number> in = gate_up_at(gate_up, width);
	Four gate = load_four(in.gate, in.column, width, in.wide), up = load_four(in.up, in.column, width, in.wide), result;
	UNROLL for (int k = 0; k < 4; k++)
		result[k] = gate[k] * sigmoid(gate[k]) * up[k];
	store_four(out + (u64)in.row * width, in.column, width, in.wide && aligned(out), result);
}

template <class Number> DEVICE void swiglu_grad_of(float *d_gate_up, const float *d_out, const Number *gate_up, u32 width) {
	GateUp<Number> in = gate_up_at(gate_up, width);
	Four d = load_four(d_out + (u64)in.row * width, in.column, width, in.wide && aligned(d_out));
	Four gate = load_four(in.gate, in.column, width, in.wide), up = load_four(in.up, in.column, width, in.wide), d_gate, d_up;
	UNROLL for (int k = 0; k < 4; k++) {
		float s = sigmoid(gate[k]);
		d_gate[k] = d[k] * up[k] * (s * fma(gate[k], 1 - s, 1));
		d_up[k] = d[k] * (gate[k] * s);
	}
	float *to = d_gate_up + (u64)in.row * 2 * width;
	store_four(to, in.column, width, in.wide && aligned(d_gate_up), d_gate);
	store_four(to + width, in.column, width, in.wide && aligned(d_gate_up), d_up);
}

// The tanh form of gelu is gate times the sigmoid of this argument, whose derivative is slope.
DEVICE float gelu_argument(float gate, float *slope) {
	const float c = 1.59576912f, cubic = 0.0713548163f; // 2·sqrt(2/π), and 0.044715 times that
	float square = gate * gate;
	*slope = fma(square, 3 * cubic, c);
	return gate * fma(square, cubic, c);
}

template <class Number> DEVICE void geglu_of(float *out, const Number *gate_up, u32 width) {
	GateUp<Number> in = gate_up_at(gate_up, width);
	Four gate = load_four(in.gate, in.column, width, in.wide), up = load_four(in.up, in.column, width, in.wide), result;
	UNROLL for (int k = 0; k < 4; k++) {
		float slope;
		result[k] = gate[k] * sigmoid(gelu_argument(gate[k], &slope)) * up[k];
	}
	store_four(out + (u64)in.row * width, in.column, width, in.wide && aligned(out), result);
}

template <class Number> DEVICE void geglu_grad_of(float *d_gate_up, const float *d_out, const Number *gate_up, u32 width) {
	GateUp<Number> in = gate_up_at(gate_up, width);
	Four d = load_four(d_out + (u64)in.row * width, in.column, width, in.wide && aligned(d_out));
	Four gate = load_four(in.gate, in.column, width, in.wide), up = load_four(in.up, in.column, width, in.wide), d_gate, d_up;
	UNROLL for (int k = 0; k < 4; k++) {
		float slope, z = gelu_argument(gate[k], &slope), s = sigmoid(z), complement = sigmoid(-z); // complement is 1 − s, but exact near 0, too
		d_gate[k] = d[k] * up[k] * fma(gate[k] * s * complement, slope, s);
		d_up[k] = d[k] * (gate[k] * s);
	}
	float *to = d_gate_up + (u64)in.row * 2 * width;
	store_four(to, in.column, width, in.wide && aligned(d_gate_up), d_gate);
	store_four(to + width, in.column, width, in.wide && aligned(d_gate_up), d_up);
}

#define GATE(name, Number, suffix) \
	KERNEL name##suffix(float *out, const Number *gate_up, u32 width) { name##_of(out, gate_up, width); } \
	KERNEL name##_grad##suffix(float *d_gate_up, const float *d_out, const Number *gate_up, u32 width) { \
		name##_grad_of(d_gate_up, d_out, gate_up, width); \
	}
GATE(swiglu, float, )
GATE(swiglu, u16, _bf16)
GATE(geglu, float, )
GATE(geglu, u16, _bf16)
