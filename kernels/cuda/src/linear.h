// Shared by the matrix products: copies of tiles to shared memory, and writing a result.
#pragma once
#include "words.h"

#define THREADS(n) __attribute__((launch_bounds(n)))
#define BLOCKS(n, blocks) __attribute__((launch_bounds(n, blocks))) // n threads, and that many blocks fit on a multiprocessor
#define KERNEL extern "C" __global__ void
#define MEMBER __device__ __attribute__((always_inline))
#define ROLLED _Pragma("nounroll")

DEVICE u32 block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }

// A special register, read here and not earlier: values computed from it then take no register in the loop before.
#define HERE(name, special) \
	DEVICE u32 name() { \
		u32 value; \
		asm volatile("mov.u32 %0, %%" special ";" : "=r"(value)); \
		return value; \
	}
HERE(thread_here, "tid.x")
HERE(block_x_here, "ctaid.x")
HERE(block_y_here, "ctaid.y")

// Addresses in shared memory are 32-bit, in bytes: pointers would take two registers each.
DEVICE u32 shared_address(const void *p) { return (u32)(u64)(__attribute__((address_space(3))) const char *)p; }
DEVICE void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <u32 groups> DEVICE void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory"); }

// copy16 copies 16 bytes, zeros after the first `bytes`; copy4 copies 4, or zeros. copy2 loads 2, times 0 or 1, and waits for them.
DEVICE void copy16(u32 to, const void *from, u32 bytes) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
DEVICE void copy4(u32 to, const void *from, u32 bytes) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
DEVICE void copy2(u32 to, const u16 *from, u16 factor) {
	u16 x;
	asm volatile("ld.global.u16 %0, [%1];" : "=h"(x) : "l"(from));
	asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"((u16)(x * factor)) : "memory");
}

// Rows of a matrix in global memory, stride elements apart. wide: each begins at a multiple of 16 bytes.
template <typename T> struct Rows {
	const T *data;
	u32 stride;
	bool wide;
};
template <typename T>
DEVICE Rows<T> rows_of(const T *data, u32 stride) { return {data, stride, ((u64)data | stride * sizeof(T)) % 16 == 0}; }

// copy_tile copies tile_rows × tile_columns elements from (row, column) on to rows of shared memory with the given pitch. Elements outside
// of rows × columns become zero: a copy of 0 bytes reads nothing, whatever its address. Matrices that are not wide are copied one number
// at a time: bf16 synchronously, since asynchronous copies have 4 bytes at least.
template <u32 tile_rows, u32 tile_columns, u32 pitch, u32 tile_threads, typename T>
DEVICE void copy_tile(u32 to, Rows<T> from, u32 row, u32 column, u32 rows, u32 columns) {
	u32 stride = from.stride;
	const T *data = from.data;
	asm volatile("" : "+r"(stride), "+l"(data)); // else values computed from them would be kept in registers
	if (from.wide) {
		constexpr u32 per_copy = 16 / sizeof(T), copies_across = tile_columns / per_copy, row_step = tile_threads / copies_across;
		static_assert(tile_threads % copies_across == 0 && tile_rows % row_step == 0 && pitch % per_copy == 0,
			"every thread brings as much, to multiples of 16 bytes");
		u32 t = thread_here(), tile_row = t / copies_across, tile_column = t % copies_across * per_copy;
		u32 bytes = column + tile_column < columns ? min(columns - (column + tile_column), per_copy) * (u32)sizeof(T) : 0;
		const T *source = data + (u64)(row + tile_row) * stride + (column + tile_column);
		to += (tile_row * pitch + tile_column) * (u32)sizeof(T);
		UNROLL for (u32 i = 0; i < tile_rows; i += row_step, source += (u64)row_step * stride)
			copy16(to + i * pitch * (u32)sizeof(T), source, row + tile_row + i < rows ? bytes : 0);
		return;
	}
	ROLLED for (u32 n = thread_here(); n < tile_rows * tile_columns; n += tile_threads) {
		u32 tile_row = n / tile_columns, tile_column = n % tile_columns;
		bool inside = row + tile_row < rows && column + tile_column < columns;
		const T *source = data + (u64)(row + tile_row) * stride + (column + tile_column);
		if constexpr (sizeof(T) == 4)
			copy4(to + (tile_row * pitch + tile_column) * 4, source, inside ? 4 : 0);
		else
			copy2(to + (tile_row * pitch + tile_column) * 2, inside ? source : data, inside); // without a branch, so that a warp stays together
	}
}

// How a product is written: out = (accumulate ? out : 0) + alpha · sum + bias, with one rounding for the addition to out and one for the
// sum.
struct Result {
	float *out;
	u32 stride;
	const float *bias; // or null
	float alpha;
	u32 accumulate;

	// write adds to +0, so that −0 becomes +0: else the sign of a zero would depend on how many zeros a tile pads the sum with.
	MEMBER void write(u32 row, u32 column, float sum) const {
		float *to = out + (u64)row * stride + column, before = 0;
		if (accumulate)
			before += *to;
		if (bias)
			before += bias[column];
		*to = __builtin_fmaf(alpha, sum, before);
	}
};

// 2 or 4 numbers from shared memory.
template <u32 n> DEVICE void load(float *v, u32 from) {
	if constexpr (n == 4)
		asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(from) : "memory");
	else
		asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "r"(from) : "memory");
}
