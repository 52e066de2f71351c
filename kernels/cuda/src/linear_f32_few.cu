// Products of few results with f32 weights, in the chains of linear_f32.cu: an adapter while decoding. Latency dominates: a chain is
// thousands of multiply-adds, each of which waits for the one before. So a lane has one chain, no warp waits for another, the next
// factors are copied between multiply-adds, and those of a step are in registers three steps ahead. The inner size is a multiple of deep;
// rows begin at multiples of 16 bytes.
#include "linear.h"

DEVICE void warp_barrier() { asm volatile("bar.warp.sync -1;" ::: "memory"); }
// A multiply-add that is not reordered: else later loads of the chain would be moved before all of them, and wait in registers.
DEVICE void add_here(float *sum, float a, float b) { asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(*sum) : "f"(a), "f"(b)); }

// A block is a warp with high × broad results: each lane has one column of `high` rows, in steps of deep of the inner size.
template <u32 high_, u32 broad_, u32 stages_> struct Chains {
	static constexpr u32 high = high_, broad = broad_, deep = 128, stages = stages_, each = high * broad / 32, apart = high / each,
		pitch = (deep + 4) * 4, w = high * pitch, lines = high + broad, bytes = lines * pitch;
	static_assert(high * broad % 32 == 0 && high % each == 0 && lines * 4 <= deep && bytes * stages <= 99 << 10);
};

// The part of a stage that a lane copies: 16 bytes of each row of x and of w.
template <typename S> struct Lines {
	const float *x, *w;
	u32 x_stride, w_stride, rows, outer; // from the first row on

	// bring copies row n for the inner numbers from k on, or zeros.
	MEMBER void bring(u32 to, u32 n, u32 k, bool some) const {
		bool of_x = n < S::high;
		u32 row = of_x ? n : n - S::high;
		const float *from = of_x ? x + (u64)row * x_stride : w + (u64)row * w_stride;
		copy16(to + n * S::pitch + thread_here() * 16, from + k, some && row < (of_x ? rows : outer) ? 16 : 0);
	}
};

template <typename S> DEVICE void chains(const Result &result, Rows<float> x, Rows<float> w, u32 rows, u32 outer, u32 inner) {
	constexpr u32 ahead = 3, taken = ahead + 1;
	extern __shared__ __attribute__((aligned(16))) unsigned char ring[];
	u32 row = block_y() * S::high, column = block_x() * S::broad;
	Lines<S> lines = {x.at + (u64)row * x.stride + thread() * 4, w.at + (u64)column * w.stride + thread() * 4, x.stride, w.stride,
		rows - row, outer - column};
	u32 now = shared_address(ring), begin = now, last = now + (S::stages - 1) * S::bytes;
	ROLLED for (u32 s = 0; s < S::stages - 1; s++) {
		UNROLL for (u32 n = 0; n < S::lines; n++)
			lines.bring(begin + s * S::bytes, n, s * S::deep, s * S::deep < inner);
		commit();
	}
	float sum[S::each] = {}, u[taken][S::each][4], v[taken][4];
	u32 x_place = thread() / S::broad * S::pitch, w_place = S::w + thread() % S::broad * S::pitch;
	auto take = [&](u32 n, u32 from) {
		load<4>(v[n], from + w_place);
		UNROLL for (u32 i = 0; i < S::each; i++)
			load<4>(u[n][i], from + x_place + i * S::apart * S::pitch);
	};
	wait<S::stages - 2>();
	warp_barrier();
	UNROLL for (u32 n = 0; n < ahead; n++)
		take(n, now + n * 16);
	ROLLED for (u32 k = 0; k < inner; k += S::deep) {
		u32 before = now == begin ? last : now - S::bytes, next = k + (S::stages - 1) * S::deep;
		UNROLL for (u32 d = 0; d < S::deep; d += 4) {
			u32 then = d + 4 * ahead, n = d / 4 % taken;
			if (d / 4 < S::lines) // the whole warp has read the stage before, which is overwritten here
				lines.bring(before, d / 4, next, next < inner);
			if (d / 4 == S::lines)
				commit();
			if (then == S::deep) {
				wait<S::stages - 2>();
				warp_barrier();
				now = now == last ? begin : now + S::bytes; // after the end there are zeros
			}
			take(then / 4 % taken, now + then % S::deep * 4);
			UNROLL for (u32 e = 0; e < 4; e++)
				UNROLL for (u32 i = 0; i < S::each; i++)
					add_here(&sum[i], u[n][i][e], v[n][e]);
		}
	}
	row = block_y_here() * S::high + thread_here() / S::broad, column = block_x_here() * S::broad + thread_here() % S::broad;
	UNROLL for (u32 i = 0; i < S::each; i++)
		if (row + i * S::apart < rows && column < outer)
			result.write(row + i * S::apart, column, sum[i]);
}

#define CHAINS(name, ...) \
	KERNEL THREADS(32) name(float *out, u32 out_stride, const float *x, u32 x_stride, const float *w, u32 w_stride, \
		const float *bias, float alpha, u32 accumulate, u32 rows, u32 outer, u32 inner) { \
		chains<Chains<__VA_ARGS__>>({out, out_stride, bias, alpha, accumulate}, rows_of(x, x_stride), rows_of(w, w_stride), rows, outer, inner); \
	}
CHAINS(linear_f32_4x8, 4, 8, 6)
