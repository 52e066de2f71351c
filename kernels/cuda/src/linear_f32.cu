// Products with f32 weights, mostly those of LoRA.
//
// An element of the result is one chain of fused multiply-adds from zero, ascending in the inner size. The tile shape changes no bit.
#include "linear.h"

// n numbers in global memory.
template <u32 n> using Vector = float __attribute__((ext_vector_type(n)));
template <u32 n> DEVICE void read(float *v, const float *from) {
	Vector<n> all = *(const Vector<n> *)from;
	UNROLL for (u32 i = 0; i < n; i++)
		v[i] = all[i];
}
template <u32 n> DEVICE void write(float *to, const float *v) {
	Vector<n> all;
	UNROLL for (u32 i = 0; i < n; i++)
		all[i] = v[i];
	*(Vector<n> *)to = all;
}

// A tile of side × side results by threads of 4 × thread_columns, in steps of `depth` of the inner size, with `stages` stages in flight.
template <u32 side_, u32 thread_columns_, u32 depth_, u32 stages_> struct Square {
	static constexpr u32 side = side_, thread_rows = 4, thread_columns = thread_columns_, depth = depth_, stages = stages_,
		threads_across = side / thread_columns, threads = threads_across * (side / thread_rows);
};
using Large = Square<64, 4, 32, 3>;
using Small = Square<32, 2, 64, 5>;

// A factor is stored with its inner size along rows (x [T, K] of Linear) or along columns (w [N, K] of its gradient).
enum Along { alongRows, alongColumns };

// The part of a factor in a tile: side × depth numbers from (outer, inner) on, in the layout of memory. A thread has thread_outers
// outer numbers.
template <typename S, u32 thread_outers, Along along> struct Factor {
	static constexpr u32 pitch = (along == alongRows ? S::depth : S::side) + 4,
		bytes = (along == alongRows ? S::side : S::depth) * pitch * 4;

	static MEMBER void fetch(u32 to, const Rows<float> &m, u32 outer, u32 inner, u32 outers, u32 inners) {
		if (along == alongRows)
			copy_tile<S::side, S::depth, pitch, S::threads>(to, m, outer, inner, outers, inners);
		else
			copy_tile<S::depth, S::side, pitch, S::threads>(to, m, inner, outer, inners, outers);
	}
	// outer_index and step say which of the tile's outer numbers a thread has, chosen to load them without bank conflicts.
	static MEMBER u32 outer_index(u32 n) { return along == alongRows ? n : thread_outers * n; }
	static constexpr u32 step = along == alongRows ? S::side / thread_outers : 1;

	// load_factor loads v[i][d]: outer number outer_index(n) + i · step, inner number d of the 4 from inner on.
	static MEMBER void load_factor(float (*v)[4], u32 from, u32 n, u32 inner) {
		UNROLL for (u32 i = 0; i < (along == alongRows ? thread_outers : 4); i++) {
			if (along == alongRows) {
				load<4>(v[i], from + ((n + i * step) * pitch + inner) * 4);
				continue;
			}
			float line[thread_outers];
			load<thread_outers>(line, from + ((inner + i) * pitch + thread_outers * n) * 4);
			UNROLL for (u32 o = 0; o < thread_outers; o++)
				v[o][i] = line[o];
		}
	}
};

// write_some writes those of a thread's results, or vectors of them, that are in the matrix. It reads all the old values before it writes
// any, since a thread would wait for each otherwise.
template <typename S, u32 step, bool vectors, typename Inside>
DEVICE void write_some(const Result &result, u32 row, u32 column, const float (*sum)[S::thread_columns], Inside inside) {
	constexpr u32 row_step = S::side / S::thread_rows;
	float before[S::thread_rows][S::thread_columns] = {}, *to = result.out + (u64)row * result.stride + column;
	if (result.accumulate)
		UNROLL for (u32 i = 0; i < S::thread_rows; i++) {
			const float *from = to + (u64)(i * row_step) * result.stride;
			if constexpr (vectors)
				read<S::thread_columns>(before[i], from);
			else
				UNROLL for (u32 j = 0; j < S::thread_columns; j++)
					if (inside(i * row_step, j * step))
						before[i][j] = from[j * step];
		}
	UNROLL for (u32 i = 0; i < S::thread_rows; i++) {
		float line[S::thread_columns];
		UNROLL for (u32 j = 0; j < S::thread_columns; j++) {
			float all = 0 + before[i][j]; // as in Result
			if (result.bias && inside(0, j * step))
				all += result.bias[column + j * step];
			line[j] = __builtin_fmaf(result.alpha, sum[i][j], all);
		}
		if constexpr (vectors)
			write<S::thread_columns>(to + (u64)(i * row_step) * result.stride, line);
		else
			UNROLL for (u32 j = 0; j < S::thread_columns; j++)
				if (inside(i * row_step, j * step))
					to[(u64)(i * row_step) * result.stride + j * step] = line[j];
	}
}

// write_all writes a thread's results, in vectors where they are adjacent and aligned.
template <typename S, u32 step>
DEVICE void write_all(const Result &result, u32 row, u32 column, u32 rows, u32 outer, const float (*sum)[S::thread_columns]) {
	auto always = [](u32, u32) { return true; };
	bool whole = row + S::side - S::side / S::thread_rows < rows && column + (S::thread_columns - 1) * step < outer;
	if (step == 1 && whole && ((u64)result.out | column * 4 | result.stride * 4) % (4 * S::thread_columns) == 0)
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
	using A = Factor<S, S::thread_rows, alongRows>;
	using B = Factor<S, S::thread_columns, bAlong>;
	constexpr u32 bytes = A::bytes + B::bytes, ahead = S::stages - 1;
	static_assert(bytes * S::stages <= 99 << 10);
	extern __shared__ __attribute__((aligned(16))) unsigned char ring[];
	u32 first_stage = shared_address(ring), row = block_y() * S::side, column = block_x() * S::side;
	u32 x = thread() % S::threads_across, y = thread() / S::threads_across;
	auto fetch = [&](u32 to, u32 k) {
		A::fetch(to, a, row, k, rows, inner);
		B::fetch(to + A::bytes, b, column, k, outer, inner);
	};
	ROLLED for (u32 s = 0; s < ahead; s++) {
		if (s * S::depth < inner)
			fetch(first_stage + s * bytes, s * S::depth);
		commit();
	}
	float sum[S::thread_rows][S::thread_columns] = {}, a_values[2][S::thread_rows][4], b_values[2][S::thread_columns][4];
	auto load_factors = [&](u32 n, u32 from, u32 d) {
		A::load_factor(a_values[n], from, y, d);
		B::load_factor(b_values[n], from + A::bytes, x, d);
	};
	auto multiply_factors = [&](u32 buffer) {
		UNROLL for (u32 n = 0; n < 4; n++)
			UNROLL for (u32 i = 0; i < S::thread_rows; i++)
				UNROLL for (u32 j = 0; j < S::thread_columns; j++)
					sum[i][j] = __builtin_fmaf(a_values[buffer][i][n], b_values[buffer][j][n], sum[i][j]);
	};
	u32 stage = first_stage, last_stage = first_stage + ahead * bytes;
	wait<ahead - 1>();
	barrier();
	load_factors(0, stage, 0);
	ROLLED for (u32 k = 0; k < inner; k += S::depth) {
		if (k + ahead * S::depth < inner)
			fetch(stage == first_stage ? last_stage : stage - bytes, k + ahead * S::depth);
		commit();
		ROLLED for (u32 d = 0; d < S::depth - 8; d += 8) {
			load_factors(1, stage, d + 4);
			multiply_factors(0);
			load_factors(0, stage, d + 8);
			multiply_factors(1);
		}
		load_factors(1, stage, S::depth - 4);
		multiply_factors(0);
		wait<ahead - 1>();
		barrier(); // the stage is no longer needed
		stage = k + S::depth >= inner ? stage : stage == last_stage ? first_stage : stage + bytes; // after the end, the contents are not used
		load_factors(0, stage, 0);
		multiply_factors(1);
	}
	u32 here = thread_here();
	write_all<S, B::step>(result, block_y() * S::side + here / S::threads_across,
		block_x() * S::side + B::outer_index(here % S::threads_across), rows, outer, sum);
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
