// What Go sees of the C side: the table of kernels, the arguments of each, and how a worker runs one.
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

// A kernel does tasks [from, to) of an operation. scratch is the worker's own.
typedef void grpo_kernel(const void *args, void *scratch, int64_t from, int64_t to);

typedef struct {
	const char *name;
	int32_t lanes;    // floats in a vector
	int32_t tile;     // rows in a full register tile
	int32_t spread_tile; // and in one whose left-hand side is not packed
#define OP(name) grpo_kernel *name;
	GRPO_OPS(OP)
#undef OP
} grpo_variant;

// Each is NULL where it was not compiled or the processor cannot run it.
const grpo_variant *grpo_avx512(void);
const grpo_variant *grpo_avx2(void);
const grpo_variant *grpo_portable(void);

// A job is one operation cut into tasks; workers draw runs of grain tasks until none is left.
typedef struct {
	grpo_kernel *kernel;
	const void *args;
	int64_t tasks, grain;
	_Alignas(64) int64_t next;
} grpo_job;

void grpo_work(grpo_job *job, void *scratch);

static inline void grpo_call(grpo_kernel *k, const void *args, void *scratch, int64_t from, int64_t to)
{
	k(args, scratch, from, to);
}

// Memory in whole cache lines, zeroed; from 2 MB on in huge pages where the system has them.
void *grpo_alloc(size_t bytes);
void grpo_free(void *p, size_t bytes);

#endif
