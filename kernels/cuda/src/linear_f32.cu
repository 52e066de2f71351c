// Products with f32 weights, mostly those of LoRA.
//
// An element of the result is one chain of fused multiply-adds from zero, ascending in the inner size. The tile shape changes no bit.
#include "linear.h"

// n numbers in global memory.
template <u32 n> using Numbers = float __attribute__((ext_vector_type(n)));
template <u32 n> DEVICE void read(float *v, const float *from) {
	Numbers<n> all = *(const Numbers<n> *)from;
	UNROLL for (u32 i = 0; i < n; i++)
		v[i] = all[i];
}
template <u32 n> DEVICE void write(float *to, const float *v) {
	Numbers<n> all;
	UNROLL for (u32 i = 0; i < n; i++)
		all[i] = v[i];
	*(Numbers<n> *)to = all;
}

// A tile of side × side results by threads of 4 × wide, in steps of deep of the inner size, with `stages` stages in flight.
template <u32 side_, u32 wide_, u32 deep_, u32 stages_> struct Square {
	static constexpr u32 side = side_, tall = 4, wide = wide_, deep = deep_, stages = stages_, across = side / wide,
		threads = across * (side / tall);
};
using Large = Square<64, 4, 32, 3>;
using Small = Square<32, 2, 64, 5>;

// A factor is stored with its inner size along rows (x [T, K] of Linear) or along columns (w [N, K] of its gradient).
enum Along { alongRows, alongColumns };

// The part of a factor in a tile: side × deep numbers from (outer, inner) on, in the layout of memory. A thread has `each` outer numbers.
template <typename S, u32 each, Along along> struct Factor {
	static constexpr u32 pitch = (along == alongRows ? S::deep : S::side) + 4,
		bytes = (along == alongRows ? S::side : S::deep) * pitch * 4;

	static MEMBER void fetch(u32 to, const Rows<float> &m, u32 outer, u32 inner, u32 outers, u32 inners) {
		if (along == alongRows)
			bring<S::side, S::deep, pitch, S::threads>(to, m, outer, inner, outers, inners);
		else
			bring<S::deep, S::side, pitch, S::threads>(to, m, inner, outer, inners, outers);
	}
	// place and step say which of the tile's outer numbers a thread has, chosen to load them without bank conflicts.
	static MEMBER u32 place(u32 n) { return along == alongRows ? n : each * n; }
	static constexpr u32 step = along == alongRows ? S::side / each : 1;

	// take loads v[i][d]: outer number place(n) + i · step, inner number d of the 4 from inner on.
	static MEMBER void take(float (*v)[4], u32 from, u32 n, u32 inner) {
		UNROLL for (u32 i = 0; i < (along == alongRows ? each : 4); i++) {
			if (along == alongRows) {
				load<4>(v[i], from + ((n + i * step) * pitch + inner) * 4);
				continue;
			}
			float line[each];
			load<each>(line, from + ((inner + i) * pitch + each * n) * 4);
			UNROLL for (u32 o = 0; o < each; o++)
				v[o][i] = line[o];
		}
	}
};

// write_some writes those of a thread's results, or vectors of them, that are in the matrix. It reads all the old values before it writes
// any, since a thread would wait for each otherwise.
template <typename S, u32 step, bool vectors, typename Is>
DEVICE void write_some(const Result &result, u32 row, u32 column, const float (*sum)[S::wide], Is there) {
	constexpr u32 down = S::side / S::tall;
	float before[S::tall][S::wide] = {}, *to = result.out + (u64)row * result.stride + column;
	if (result.accumulate)
		UNROLL for (u32 i = 0; i < S::tall; i++) {
			const float *from = to + (u64)(i * down) * result.stride;
			if constexpr (vectors)
				read<S::wide>(before[i], from);
			else
				UNROLL for (u32 j = 0; j < S::wide; j++)
					if (there(i * down, j * step))
						before[i][j] = from[j * step];
		}
	UNROLL for (u32 i = 0; i < S::tall; i++) {
		float line[S::wide];
		UNROLL for (u32 j = 0; j < S::wide; j++) {
			float all = 0 + before[i][j]; // as in Result
			if (result.bias && there(0, j * step))
				all += result.bias[column + j * step];
			line[j] = __builtin_fmaf(result.alpha, sum[i][j], all);
		}
		if constexpr (vectors)
			write<S::wide>(to + (u64)(i * down) * result.stride, line);
		else
			UNROLL for (u32 j = 0; j < S::wide; j++)
				if (there(i * down, j * step))
					to[(u64)(i * down) * result.stride + j * step] = line[j];
	}
}

// write_all writes a thread's results, in vectors where they are adjacent and aligned.
template <typename S, u32 step>
DEVICE void write_all(const Result &result, u32 row, u32 column, u32 rows, u32 outer, const float (*sum)[S::wide]) {
	auto always = [](u32, u32) { return true; };
	bool whole = row + S::side - S::side / S::tall < rows && column + (S::wide - 1) * step < outer;
	if (step == 1 && whole && ((u64)result.out | column * 4 | result.stride * 4) % (4 * S::wide) == 0)
		write_some<S, step, step == 1>(result, row, column, sum, always);
	else if (whole)
		write_some<S, step, false>(result, row, column, sum, always);
	else
		write_some<S, step, false>(result, row, column, sum, [&](u32 i, u32 j) { return row + i < rows && column + j < outer; });
}

// chains computes the tile of the block of a [rows, inner] · b [outer, inner]ᵀ. It loads the next factors before it multiplies the
// current ones, so that threads do not wait.
template <typename S, Along bAlong>
DEVICE void chains(const Result &result, Rows<float> a, Rows<float> b, u32 rows, u32 outer, u32 inner) {
	using A = Factor<S, S::tall, alongRows>;
	using B = Factor<S, S::wide, bAlong>;
	constexpr u32 bytes = A::bytes + B::bytes, ahead = S::stages - 1;
	static_assert(bytes * S::stages <= 99 << 10);
	extern __shared__ __attribute__((aligned(16))) unsigned char ring[];
	u32 begin = shared_address(ring), row = block_y() * S::side, column = block_x() * S::side;
	u32 x = thread() % S::across, y = thread() / S::across;
	auto fetch = [&](u32 to, u32 k) {
		A::fetch(to, a, row, k, rows, inner);
		B::fetch(to + A::bytes, b, column, k, outer, inner);
	};
	ROLLED for (u32 s = 0; s < ahead; s++) {
		if (s * S::deep < inner)
			fetch(begin + s * bytes, s * S::deep);
		commit();
	}
	float sum[S::tall][S::wide] = {}, u[2][S::tall][4], v[2][S::wide][4];
	auto take = [&](u32 n, u32 from, u32 d) {
		A::take(u[n], from, y, d);
		B::take(v[n], from + A::bytes, x, d);
	};
	auto use = [&](u32 taken) {
		UNROLL for (u32 n = 0; n < 4; n++)
			UNROLL for (u32 i = 0; i < S::tall; i++)
				UNROLL for (u32 j = 0; j < S::wide; j++)
					sum[i][j] = __builtin_fmaf(u[taken][i][n], v[taken][j][n], sum[i][j]);
	};
	u32 now = begin, last = begin + ahead * bytes;
	wait<ahead - 1>();
	barrier();
	take(0, now, 0);
	ROLLED for (u32 k = 0; k < inner; k += S::deep) {
		if (k + ahead * S::deep < inner)
			fetch(now == begin ? last : now - bytes, k + ahead * S::deep);
		commit();
		ROLLED for (u32 d = 0; d < S::deep - 8; d += 8) {
			take(1, now, d + 4);
			use(0);
			take(0, now, d + 8);
			use(1);
		}
		take(1, now, S::deep - 4);
		use(0);
		wait<ahead - 1>();
		barrier(); // the stage is no longer needed
		now = k + S::deep >= inner ? now : now == last ? begin : now + bytes; // after the end, the contents are not used
		take(0, now, 0);
		use(1);
	}
	u32 here = thread_here();
	write_all<S, B::step>(result, block_y() * S::side + here / S::across, block_x() * S::side + B::place(here % S::across), rows, outer, sum);
}

// The weights are w [N, K].
#define PRODUCT(name, shape, tile, weightsAlong) \
	KERNEL THREADS(tile::threads) name##_##shape(float *out, u32 out_stride, const float *x, u32 x_stride, const float *w, u32 w_stride, \
		const float *bias, float alpha, u32 accumulate, u32 rows, u32 outer, u32 inner) { \
		chains<tile, weightsAlong>({out, out_stride, bias, alpha, accumulate}, rows_of(x, x_stride), rows_of(w, w_stride), rows, outer, inner); \
	}
PRODUCT(linear_f32, 64x64, Large, alongRows)
PRODUCT(linear_f32, 32x32, Small, alongRows)
PRODUCT(linear_grad_x_f32, 64x64, Large, alongColumns)
PRODUCT(linear_grad_x_f32, 32x32, Small, alongColumns)
