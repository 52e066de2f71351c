// The AVX-512 variant, but with products of tiles on the tile unit (AMX).
#include "kernels.h"

#ifdef TILE_KERNELS
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,amx-tile,amx-bf16"))), \
                             apply_to = function)
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunused-const-variable"
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,amx-tile,amx-bf16,prefer-vector-width=512")
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif

#define VL 16
#define MR 14
#define NV 2
#define TILES_NATIVE
#include "kernels.inc"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const grpo_variant *grpo_amx(void)
{
	static grpo_variant variant;
	const grpo_variant *rest = grpo_avx512();
	if (!rest || grpo_tile_unit() != TILES_GRANTED)
		return NULL;
	variant = *rest;
	variant.name = "amx";
	variant.peak_tiles = peak_tiles;
	variant.tiles_gemm = tiles_gemm;
	variant.tiles_head_chunks = tiles_head_chunks;
	variant.attention = attention;
	variant.attention_grad = attention_grad;
	variant.paged_attention = paged_attention;
	return &variant;
}
#else
const grpo_variant *grpo_amx(void) { return NULL; }
#endif
