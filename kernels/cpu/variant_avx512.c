// 512-bit vectors: 32 registers, a tile of 14 rows by two vectors.
#include "kernels.h"

#if defined(__x86_64__)
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
#endif

#define VL 16
#define MR 14
#define NV 2
#define VARIANT "avx512"
#include "variant.inc"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const grpo_variant *grpo_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
	           ? &variant
	           : NULL;
}

int grpo_has_pairs(void) { return __builtin_cpu_supports("avx512bf16"); }
int grpo_has_dot(void) { return __builtin_cpu_supports("avx512vnni"); }
#else
const grpo_variant *grpo_avx512(void) { return NULL; }
int grpo_has_pairs(void) { return 0; }
int grpo_has_dot(void) { return 0; }
#endif
