// Keywords for kernels in CUDA C++, which clang compiles without a toolkit.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define DEVICE static __device__ __attribute__((always_inline)) inline
#define INLINE __attribute__((always_inline)) // a lambda that is called more than once
#define UNROLL _Pragma("unroll")

typedef unsigned u32;
typedef unsigned short u16;
typedef unsigned long long u64;

DEVICE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE void barrier() { __nvvm_bar_sync(0); }
DEVICE u32 min(u32 a, u32 b) { return a < b ? a : b; }

// A pair of numbers rounded to bf16, the first in the lower half.
DEVICE u32 rounded(float first, float second) {
	u32 pair;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
	return pair;
}
