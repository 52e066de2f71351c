// Shared by kernels over rows and numbers: loads of four numbers, sums in one fixed order, and the functions that the library of a
// toolkit would have. No approximate instruction is used: a card computes what IEEE 754 defines, and so does the emulated device.
#pragma once
#include "words.h"

#define KERNEL extern "C" __global__ __attribute__((launch_bounds(256))) void

// Threads of a block, in every launch.
constexpr u32 threads = 256;

DEVICE u32 lane() { return thread() % 32; }
DEVICE u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u64 global_thread() { return (u64)block() * threads + thread(); }

// Four numbers at a time, from index i of n: by one access where the caller knows that it is aligned, else one by one; zeros after the
// end. Both ways give the same numbers, and so the same sums.
typedef float Four __attribute__((ext_vector_type(4)));

template <class... P> DEVICE bool aligned(P... at) { return (((u64)at | ...) & 15) == 0; }

DEVICE Four load_four(const float *x, u64 i, u64 n, bool wide) {
	if (wide && i + 4 <= n)
		return *(const Four *)(x + i);
	Four v = 0;
	UNROLL for (u32 k = 0; k < 4; k++)
		if (i + k < n)
			v[k] = x[i + k];
	return v;
}

DEVICE void store_four(float *x, u64 i, u64 n, bool wide, Four v) {
	if (wide && i + 4 <= n) {
		*(Four *)(x + i) = v;
		return;
	}
	UNROLL for (u32 k = 0; k < 4; k++)
		if (i + k < n)
			x[i + k] = v[k];
}

// The same for rows stored as bf16, with accesses of 8 bytes.
DEVICE float load_one(const float *x, u64 i) { return x[i]; }
DEVICE float load_one(const u16 *x, u64 i) { return __builtin_bit_cast(float, (u32)x[i] << 16); }

DEVICE Four load_four(const u16 *x, u64 i, u64 n, bool wide) {
	Four v = 0;
	if (wide && i + 4 <= n) {
		u64 all = *(const u64 *)(x + i);
		UNROLL for (u32 k = 0; k < 4; k++)
			v[k] = __builtin_bit_cast(float, (u32)(all >> 16 * k) << 16);
		return v;
	}
	UNROLL for (u32 k = 0; k < 4; k++)
		if (i + k < n)
			v[k] = load_one(x, i + k);
	return v;
}

DEVICE void store_four(u16 *x, u64 i, u64 n, bool wide, Four v) {
	u64 all = (u64)rounded(v[2], v[3]) << 32 | rounded(v[0], v[1]);
	if (wide && i + 4 <= n) {
		*(u64 *)(x + i) = all;
		return;
	}
	UNROLL for (u32 k = 0; k < 4; k++)
		if (i + k < n)
			x[i + k] = (u16)(all >> 16 * k);
}

DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

// The value of the lane whose index differs in these bits.
DEVICE float shuffle_xor(float v, int bits) { return __nvvm_shfl_sync_bfly_f32(~0u, v, bits, 31); }
DEVICE u32 shuffle_xor(u32 v, int bits) { return (u32)__nvvm_shfl_sync_bfly_i32(~0u, (int)v, bits, 31); }
DEVICE double shuffle_xor(double v, int bits) {
	u64 all = __builtin_bit_cast(u64, v);
	u32 low = shuffle_xor((u32)all, bits), high = shuffle_xor((u32)(all >> 32), bits);
	return __builtin_bit_cast(double, (u64)high << 32 | low);
}

struct Plus {
	template <class Number> DEVICE Number of(Number a, Number b) { return a + b; }
};
struct Least {
	template <class Number> DEVICE Number of(Number a, Number b) { return b < a ? b : a; }
};
struct Greatest {
	template <class Number> DEVICE Number of(Number a, Number b) { return b > a ? b : a; }
};

// A reduction over a warp, by a tree. All lanes get the result.
template <class Operation = Plus, class Number> DEVICE Number over_warp(Number v) {
	UNROLL for (int bits = 16; bits; bits /= 2)
		v = Operation::of(v, shuffle_xor(v, bits));
	return v;
}

// A reduction over a block: a tree in each warp, then the warps in ascending order. All threads get the result.
template <class Operation = Plus, class Number> DEVICE Number over_block(Number v) {
	__shared__ Number of_warps[threads / 32];
	v = over_warp<Operation>(v);
	if (lane() == 0)
		of_warps[thread() / 32] = v;
	barrier();
	Number all = of_warps[0];
	UNROLL for (u32 w = 1; w < threads / 32; w++)
		all = Operation::of(all, of_warps[w]);
	barrier(); // before the next one writes there
	return all;
}

// The value of the lane that is `lanes` below.
DEVICE u32 shuffle_up(u32 v, u32 lanes) { return (u32)__nvvm_shfl_sync_up_i32(~0u, (int)v, (int)lanes, 0); }
DEVICE u64 shuffle_up(u64 v, u32 lanes) { return (u64)shuffle_up((u32)(v >> 32), lanes) << 32 | shuffle_up((u32)v, lanes); }
DEVICE double shuffle_up(double v, u32 lanes) { return __builtin_bit_cast(double, shuffle_up(__builtin_bit_cast(u64, v), lanes)); }

// before returns the sum over the threads before this one, and sets all to the sum over the block, both in a fixed order.
template <class Number> DEVICE Number before(Number v, Number *all) {
	__shared__ Number of_warps[threads / 32];
	Number sum = v, below = 0;
	UNROLL for (u32 lanes = 1; lanes < 32; lanes *= 2) {
		Number other = shuffle_up(sum, lanes);
		sum = lane() >= lanes ? sum + other : sum;
	}
	Number lower = shuffle_up(sum, 1);
	if (lane() == 31)
		of_warps[thread() / 32] = sum;
	barrier();
	*all = 0;
	UNROLL for (u32 w = 0; w < threads / 32; w++) {
		below = w == thread() / 32 ? *all : below;
		*all += of_warps[w];
	}
	barrier(); // before the next one writes there
	return lane() ? below + lower : below;
}

// 1 / sqrt(mean + eps), from the sum of n squares.
DEVICE float inverse_rms(float squares, u32 n, float eps) { return 1 / __builtin_sqrtf(squares / (float)n + eps); }

DEVICE float power_of_two(int n) { return __builtin_bit_cast(float, (u32)(n + 127) << 23); }
DEVICE double power_of_two_double(int n) { return __builtin_bit_cast(double, (u64)(n + 1023) << 52); }

// e^r for |r| <= ln 2 / 2: its series up to r^7.
DEVICE float exp_series(float r) {
	const float coefficients[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1};
	float e = coefficients[0];
	UNROLL for (int k = 1; k < 8; k++)
		e = fma(e, r, coefficients[k]);
	return e;
}

// e^x within one unit in the last place: x is n·ln 2 + r. Overflow gives infinity, underflow 0, and NaN stays.
DEVICE float exponential(float x) {
	float clamped = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x, n = __builtin_rintf(clamped * 0x1.715476p+0f);
	float e = exp_series(fma(-n, -0x1.05c610p-29f, fma(-n, 0x1.62e430p-1f, clamped)));
	int exponent = (int)n, half = exponent >> 1;
	return x == x ? e * power_of_two(half) * power_of_two(exponent - half) : x;
}

// materialised forces the compiler to compute x, so that a choice between two values is no branch, and a warp stays together.
DEVICE float materialised(float x) {
	asm volatile("" : "+f"(x));
	return x;
}

// The hyperbolic tangent within two units in the last place: up to 1, x + x³·Q(x²), which interpolates it; above, 1 − 2/(e^2x + 1). NaN
// stays.
DEVICE float hyperbolic_tangent(float x) {
	float magnitude = x < 0 ? -x : x, square = x * x, cube = square * x;
	const float coefficients[] = {-0.000420695494f, 0.00251045933f, -0.0082189219f, 0.0216601154f, -0.0539347889f, 0.133331285f,
		-0.333333313f};
	float q = coefficients[0];
	UNROLL for (int k = 1; k < 7; k++)
		q = fma(q, square, coefficients[k]);
	float near = materialised(fma(q, cube, x)), far = materialised(1 - 2 / (exponential(magnitude + magnitude) + 1));
	far = x < 0 ? -far : far;
	return magnitude < 1 ? near : far;
}

// e^x in double precision: the series up to r^13.
DEVICE double exponential(double x) {
	double clamped = x < -750 ? -750 : x > 710 ? 710 : x, n = __builtin_rint(clamped * 0x1.71547652b82fep+0);
	double r = fma(-n, 0x1.abc9e3b39803fp-56, fma(-n, 0x1.62e42fefa39efp-1, clamped));
	const double coefficients[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
		1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1};
	double e = coefficients[0];
	UNROLL for (int k = 1; k < 14; k++)
		e = fma(e, r, coefficients[k]);
	int exponent = (int)n, half = exponent >> 1;
	return x == x ? e * power_of_two_double(half) * power_of_two_double(exponent - half) : x;
}
