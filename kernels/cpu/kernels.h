// The interface to Go: the table of kernels, the arguments of each, and the pool of workers that runs them.
#ifndef GRPO_KERNELS_H
#define GRPO_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "args_linear.h"
#include "args_head.h"
#include "args_point.h"
#include "args_attention.h"
#include "args_sample.h"
#include "ops.h"

enum { ARGS_BYTES = 512 };

// A kernel runs tasks [from, to) of an operation. scratch is the worker's own.
typedef void grpo_kernel(const void *args, void *scratch, int64_t from, int64_t to);

typedef struct {
	const char *name;
	int32_t lanes;    // floats in a vector
	int32_t tile;     // rows in a full register tile
	int32_t low_tile; // and in a low one
#define OP(name) grpo_kernel *name;
	GRPO_OPS(OP)
#undef OP
} grpo_variant;

// Whether the processor has dot products of bf16 pairs (AVX512_BF16), which the avx512 variant can use.
int grpo_has_pairs(void);

// Whether it has dot products of pairs of 16-bit integers (AVX512_VNNI).
int grpo_has_dot(void);

// Kernels for the tile unit of the processor are compiled if the compiler has its instructions. Whether it may be used:
// see tile_unit.c.
#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) || __GNUC__ >= 11)
#define TILE_KERNELS
#endif
enum { TILES_GRANTED, TILES_ABSENT, TILES_REFUSED, TILES_NOT_BUILT };
int grpo_tile_unit(void);

// Each is NULL if it was not compiled or the processor cannot run it.
const grpo_variant *grpo_amx(void);
const grpo_variant *grpo_avx512(void);
const grpo_variant *grpo_avx2(void);
const grpo_variant *grpo_portable(void);

// How long an idle worker spins before it sleeps: longer than the gap between two operations of a running program, but
// too short to be noticed. And how long the caller may stay in C: see grpo_pool_work.
enum { SPIN_MICROSECONDS = 20, YIELD_MICROSECONDS = 5000 };

// A pool is the caller and its helper threads, which run one job at a time: see pool.c.
typedef struct grpo_pool grpo_pool;

grpo_pool *grpo_pool_open(int workers); // NULL if the system has no more threads or memory
void grpo_pool_close(grpo_pool *p);
void grpo_pool_scratch(grpo_pool *p, int worker, void *scratch);

// A job is tasks [0, tasks) of a kernel; workers claim ranges of at least grain of them until none is left. After
// grpo_pool_start the caller calls grpo_pool_work until it returns 0: all tasks are done. If it returns 1, the caller has
// been in C for long and should yield to Go's scheduler before the next call; the helpers continue meanwhile.
void grpo_pool_start(grpo_pool *p, grpo_kernel *kernel, const void *args, int64_t tasks, int64_t grain);
int grpo_pool_work(grpo_pool *p);

static inline void grpo_call(grpo_kernel *k, const void *args, void *scratch, int64_t from, int64_t to)
{
	k(args, scratch, from, to);
}

// Memory in whole cache lines, zeroed; from 2 MB on in huge pages if the system has them.
void *grpo_alloc(size_t bytes);
void grpo_free(void *p, size_t bytes);

#endif
