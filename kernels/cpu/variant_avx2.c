// 256-bit vectors: 16 registers, a tile of 6 rows by two vectors.
#include "kernels.h"

#if defined(__x86_64__)
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#define VL 8
#define MR 6
#define NV 2
#define VARIANT "avx2"
#include "variant.inc"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const grpo_variant *grpo_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &variant : NULL;
}
#else
const grpo_variant *grpo_avx2(void) { return NULL; }
#endif
