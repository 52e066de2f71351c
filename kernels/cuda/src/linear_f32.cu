// Products with f32 weights, LoRA's above all.
//
// An element of the result is one chain of fused multiply-adds from zero, ascending in the inner size. A tile shape changes no bit.
#include "linear.h"

DEVICE void load4(float *v, u32 from) {
	asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(from) : "memory");
}

// A tile of side × side results by threads of 4 × 4, in steps of deep of the inner size, of which stages are under way.
template <u32 side_, u32 stages_> struct Square {
	static constexpr u32 side = side_, stages = stages_, across = side / 4, threads = across * across, deep = 32;
};
using Large = Square<64, 3>;
using Small = Square<32, 5>;

// A factor lies in memory with its inner size along rows (x [T, K] of Linear) or along columns (w [N, K] of its gradient).
enum Along { alongRows, alongColumns };

// Of a factor of a tile: side × deep numbers, the first being (outer, inner), as they lie in memory.
template <typename S, Along along> struct Factor {
	static constexpr u32 pitch = (along == alongRows ? S::deep : S::side) + 4,
		bytes = (along == alongRows ? S::side : S::deep) * pitch * 4;

	static MEMBER void fetch(u32 to, const Rows<float> &m, u32 outer, u32 inner, u32 outers, u32 inners) {
		if (along == alongRows)
			bring<S::side, S::deep, pitch, S::threads>(to, m, outer, inner, outers, inners);
		else
			bring<S::deep, S::side, pitch, S::threads>(to, m, inner, outer, inners, outers);
	}
	// place and step say which 4 of the tile's outer numbers a thread has: those that it can load without conflicts of banks.
	static MEMBER u32 place(u32 n) { return along == alongRows ? n : 4 * n; }
	static constexpr u32 step = along == alongRows ? S::across : 1;

	// take gives v[i][d]: outer number place(n) + i · step, inner number d of the 4 from inner on.
	static MEMBER void take(float (*v)[4], u32 from, u32 n, u32 inner) {
		UNROLL for (u32 i = 0; i < 4; i++) {
			if (along == alongRows) {
				load4(v[i], from + ((n + i * step) * pitch + inner) * 4);
				continue;
			}
			float line[4];
			load4(line, from + ((inner + i) * pitch + 4 * n) * 4);
			UNROLL for (u32 o = 0; o < 4; o++)
				v[o][i] = line[o];
		}
	}
};

// chains: the tile (block) of a [rows, inner] · b [outer, inner]ᵀ.
template <typename S, Along bAlong>
DEVICE void chains(const Result &result, Rows<float> a, Rows<float> b, u32 rows, u32 outer, u32 inner) {
	using A = Factor<S, alongRows>;
	using B = Factor<S, bAlong>;
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
	float sum[4][4] = {};
	u32 now = begin, last = begin + ahead * bytes;
	ROLLED for (u32 k = 0; k < inner; k += S::deep) {
		wait<ahead - 1>();
		barrier(); // everyone has used the stage before
		if (k + ahead * S::deep < inner)
			fetch(now == begin ? last : now - bytes, k + ahead * S::deep);
		commit();
		_Pragma("unroll 2") for (u32 d = 0; d < S::deep; d += 4) {
			float u[4][4], v[4][4];
			A::take(u, now, y, d);
			B::take(v, now + A::bytes, x, d);
			UNROLL for (u32 n = 0; n < 4; n++)
				UNROLL for (u32 i = 0; i < 4; i++)
					UNROLL for (u32 j = 0; j < 4; j++)
						sum[i][j] = __builtin_fmaf(u[i][n], v[j][n], sum[i][j]);
		}
		now = now == last ? begin : now + bytes;
	}
	u32 here = thread_here();
	UNROLL for (u32 i = 0; i < 4; i++)
		UNROLL for (u32 j = 0; j < 4; j++) {
			u32 r = row + A::place(here / S::across) + i * A::step, c = column + B::place(here % S::across) + j * B::step;
			if (r < rows && c < outer)
				result.write(r, c, sum[i][j]);
		}
}

// With weights, which are w [N, K].
#define PRODUCT(name, shape, tile, weightsAlong) \
	KERNEL THREADS(tile::threads) name##_##shape(float *out, u32 out_stride, const float *x, u32 x_stride, const float *w, u32 w_stride, \
		const float *bias, float alpha, u32 accumulate, u32 rows, u32 outer, u32 inner) { \
		chains<tile, weightsAlong>({out, out_stride, bias, alpha, accumulate}, rows_of(x, x_stride), rows_of(w, w_stride), rows, outer, inner); \
	}
PRODUCT(linear_f32, 64x64, Large, alongRows)
PRODUCT(linear_f32, 32x32, Small, alongRows)
PRODUCT(linear_grad_x_f32, 64x64, Large, alongColumns)
PRODUCT(linear_grad_x_f32, 32x32, Small, alongColumns)
