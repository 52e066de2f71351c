// Products of few results with f32 weights, in the chains of linear_f32.cu: what an adapter does while decoding. A chain of thousands of
// multiply-adds, each of which waits for the one before, takes its time, however few there are: so that a lane has one or two, a warp
// waits for no other, and the factors of a step are in registers three steps before. The inner size is a multiple of deep; rows begin at
// multiples of 16 bytes.
#include "linear.h"

DEVICE void warp_barrier() { asm volatile("bar.warp.sync -1;" ::: "memory"); }
DEVICE void load_four(float *v, u32 from) {
	asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(from) : "memory");
}
// A multiply-add where it stands: loads that come later in the chain would be moved before all of them otherwise, and wait in registers.
DEVICE void add_here(float *sum, float a, float b) { asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(*sum) : "f"(a), "f"(b)); }

// A block is a warp: high × broad results, each lane the same column of so many rows, in steps of deep of the inner size.
template <u32 high_, u32 broad_, u32 deep_, u32 stages_> struct Chains {
	static constexpr u32 high = high_, broad = broad_, deep = deep_, stages = stages_, each = high * broad / 32, apart = high / each,
		pitch = (deep + 4) * 4, w = high * pitch, bytes = w + broad * pitch, chunks = deep / 4, lines = 32 / chunks;
	static_assert(high * broad % 32 == 0 && high % each == 0 && 32 % chunks == 0 && high % lines == 0 && broad % lines == 0 &&
		bytes * stages <= 99 << 10);
};

// fetch brings the rows of a stage that there are; nobody reads others.
template <typename S, u32 most> DEVICE void fetch(u32 to, const float *from, u32 stride, u32 rows) {
	asm volatile("" : "+r"(stride), "+l"(from)); // the addresses would be kept in registers otherwise
	u32 row = thread_here() / S::chunks, chunk = thread_here() % S::chunks;
	from += (u64)row * stride + chunk * 4, to += row * S::pitch + chunk * 16;
	UNROLL for (u32 i = 0; i < most; i += S::lines, from += (u64)S::lines * stride)
		copy16(to + i * S::pitch, from, row + i < rows ? 16 : 0);
}

template <typename S> DEVICE void chains(const Result &result, Rows<float> x, Rows<float> w, u32 rows, u32 outer, u32 inner) {
	constexpr u32 ahead = 3, taken = ahead + 1;
	extern __shared__ __attribute__((aligned(16))) unsigned char ring[];
	u32 row = block_y() * S::high, column = block_x() * S::broad;
	auto fetch_stage = [&](u32 to, u32 k) {
		fetch<S, S::high>(to, x.at + (u64)row * x.stride + k, x.stride, rows - row);
		fetch<S, S::broad>(to + S::w, w.at + (u64)column * w.stride + k, w.stride, outer - column);
	};
	u32 now = shared_address(ring), begin = now, end = now + S::stages * S::bytes;
	ROLLED for (u32 s = 0; s < S::stages; s++) {
		if (s * S::deep < inner)
			fetch_stage(begin + s * S::bytes, s * S::deep);
		commit();
	}
	float sum[S::each] = {}, u[taken][S::each][4], v[taken][4];
	u32 x_place = thread() / S::broad * S::pitch, w_place = S::w + thread() % S::broad * S::pitch;
	auto take = [&](u32 n, u32 from) {
		load_four(v[n], from + w_place);
		UNROLL for (u32 i = 0; i < S::each; i++)
			load_four(u[n][i], from + x_place + i * S::apart * S::pitch);
	};
	wait<S::stages - 1>();
	warp_barrier();
	UNROLL for (u32 n = 0; n < ahead; n++)
		take(n, now + n * 16);
	ROLLED for (u32 k = 0; k < inner; k += S::deep)
		UNROLL for (u32 d = 0; d < S::deep; d += 4) {
			u32 then = d + 4 * ahead, n = d / 4 % taken;
			if (then == S::deep) {
				warp_barrier(); // the whole warp has taken this stage
				if (k + S::stages * S::deep < inner)
					fetch_stage(now, k + S::stages * S::deep);
				commit();
				wait<S::stages - 1>();
				warp_barrier();
				now = k + S::deep >= inner ? now : now + S::bytes == end ? begin : now + S::bytes; // at the end it is taken once more
			}
			take(then / 4 % taken, now + then % S::deep * 4);
			UNROLL for (u32 e = 0; e < 4; e++)
				UNROLL for (u32 i = 0; i < S::each; i++)
					add_here(&sum[i], u[n][i][e], v[n][e]);
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
CHAINS(linear_f32_4x8, 4, 8, 128, 6)
