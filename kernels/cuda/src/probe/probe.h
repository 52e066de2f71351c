// The keywords and builtins of CUDA C++ that the probe kernels use, for clang without a toolkit.
#pragma once
#include "../words.h"
#define THREADS(n) __attribute__((launch_bounds(n)))
#define KERNEL extern "C" __global__ void

DEVICE u32 threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 index() { return block() * threads() + thread(); }
DEVICE u32 shared_address(const void *p) { return (u32)(u64)(__attribute__((address_space(3))) const char *)p; }

DEVICE void copy16(void *to, const void *from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
DEVICE void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int groups> DEVICE void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory"); }

DEVICE void load_matrices(u32 *r, const void *p) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
DEVICE void multiply(float *c, const u32 *a, const u32 *b) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
