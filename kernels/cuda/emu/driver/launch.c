// Launches and their limits: threads, shared memory, blocks on a multiprocessor.
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS, STATIC_SHARED, CONST_BYTES, LOCAL_BYTES, REGISTERS, PTX_VERSION, BINARY_VERSION, CACHE_CA, DYNAMIC_SHARED };

static u64 launches, instructions;

static bool function_exists(CUfunction f) { return f && f->module && find_resource(MODULE, f->module); }

static u32 max_threads(const Kernel *k) { return k->max_threads ? k->max_threads : 1024; }

API CUresult cuFuncGetAttribute(int *v, int attribute, CUfunction f) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!v || !function_exists(f))
		return leave(v ? INVALID_HANDLE : INVALID_VALUE);
	switch (attribute) {
	case MAX_THREADS: *v = (int)max_threads(f); break;
	case STATIC_SHARED: *v = (int)f->shared_bytes; break;
	case CONST_BYTES: case CACHE_CA: *v = 0; break;
	case LOCAL_BYTES: *v = (int)f->local_bytes; break;
	case REGISTERS: *v = f->declared_registers < 255 ? f->declared_registers : 255; break;
	case PTX_VERSION: *v = f->module->version; break;
	case BINARY_VERSION: *v = settings.capability; break;
	case DYNAMIC_SHARED: *v = (int)f->max_dynamic; break;
	default: return leave(INVALID_VALUE);
	}
	return leave(SUCCESS);
}

API CUresult cuFuncSetAttribute(CUfunction f, int attribute, int v) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!function_exists(f) || v < 0)
		return leave(function_exists(f) ? INVALID_VALUE : INVALID_HANDLE);
	if (attribute != DYNAMIC_SHARED)
		return leave(attribute == DYNAMIC_SHARED + 1 ? SUCCESS : INVALID_VALUE); // the preferred carve-out has no effect here
	if ((u32)v + f->shared_bytes > shared_limit())
		return leave(INVALID_VALUE);
	f->max_dynamic = (u32)v;
	return leave(SUCCESS);
}

static CUresult check_function(CUfunction f) {
	CUresult r = enter(IN_CONTEXT);
	return r ? r : leave(function_exists(f) ? SUCCESS : INVALID_HANDLE);
}
API CUresult cuFuncSetCacheConfig(CUfunction f, int c) { return (void)c, check_function(f); }
API CUresult cuFuncSetSharedMemConfig(CUfunction f, int c) { return (void)c, check_function(f); }

// check_launch reports why a launch is impossible. Nothing runs then, and the error is not sticky.
static CUresult check_launch(const Launch *l) {
	const Kernel *k = l->kernel;
	u64 threads = (u64)l->block[0] * l->block[1] * l->block[2];
	char text[300] = "";
	CUresult r = INVALID_VALUE;
	if (!threads || !l->grid[0] || !l->grid[1] || !l->grid[2]) {
		snprintf(text, sizeof text, "kernel %s: a launch of no threads", k->name);
	} else if (threads > max_threads(k) || l->block[2] > 64) {
		snprintf(text, sizeof text, "kernel %s: a block of %llu threads, and the kernel can have %u", k->name, (unsigned long long)threads,
			max_threads(k));
	} else if (l->grid[0] > INT32_MAX || l->grid[1] > 65535 || l->grid[2] > 65535) {
		snprintf(text, sizeof text, "kernel %s: a grid of %u×%u×%u blocks, and a card can have 2147483647×65535×65535", k->name, l->grid[0],
			l->grid[1], l->grid[2]);
	} else if (l->dynamic > k->max_dynamic || l->dynamic + k->shared_bytes > shared_limit()) {
		snprintf(text, sizeof text, "kernel %s: %u bytes of dynamic shared memory, and %u are allowed; ask for more by cuFuncSetAttribute "
			"(the card has %u a block, static memory included)", k->name, l->dynamic, k->max_dynamic, shared_limit());
	} else {
		r = SUCCESS;
	}
	if (r)
		print_finding(BAD_LAUNCH, text);
	return r;
}

static void run_kernel(Launch *l, struct Stream *s, void **parameters) {
	Kernel *k = l->kernel;
	u8 *values = calloc(1, k->parameter_bytes + 16u);
	Finding *finding = calloc(1, sizeof *finding);
	if (!values || !finding)
		abort();
	for (int n = 0; n < k->parameters.n; n++)
		memcpy(values + k->parameters.all[n].at, parameters[n], k->parameters.all[n].size);
	l->threads = l->block[0] * l->block[1] * l->block[2];
	l->warps = (l->threads + LANES - 1) / LANES;
	l->shared_bytes = k->shared_bytes + l->dynamic;
	l->parameters = values;
	l->finding = finding;
	l->operation = begin_operation(s);
	run_launch(l);
	instructions += l->executed;
	if (l->failed != UINT64_MAX)
		fail_context(finding->kind, finding->text);
	free(values);
	free(finding);
}

API CUresult cuLaunchKernel(CUfunction f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, CUstream stream, void **parameters,
	void **extra) {
	struct Stream *s;
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	count(LAUNCHES);
	if (settings.idle)
		return leave(SUCCESS);
	if (!function_exists(f) || get_stream(stream, &s))
		return leave(INVALID_HANDLE);
	if (extra || (f->parameters.n && !parameters))
		return leave(extra ? NOT_SUPPORTED : INVALID_VALUE);
	Launch l = {.kernel = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .dynamic = shared};
	if ((r = check_launch(&l)))
		return leave(r);
	if (++launches == settings.fail_launch)
		return leave(current()->sticky_error = LAUNCH_FAILED);
	run_kernel(&l, s, parameters);
	return leave(SUCCESS);
}

// grpo_emu_instructions is the number of warp instructions that this process has executed.
API u64 grpo_emu_instructions(void) { return instructions; }

// blocks_per_multiprocessor is how many blocks of this size a multiprocessor holds at a time.
static int blocks_per_multiprocessor(const Kernel *k, int threads, size_t shared) {
	u64 each = shared + k->shared_bytes + 1024, memory = shared_limit() + 1024;
	u32 by_threads = 2048 / ((u32)(threads + 31) / 32 * 32), by_memory = (u32)(memory / each);
	u32 n = by_threads < by_memory ? by_threads : by_memory;
	return (int)(n < 32 ? n : 32);
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t shared) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!n || threads < 1 || threads > 1024 || !function_exists(f))
		return leave(INVALID_VALUE);
	*n = blocks_per_multiprocessor(f, threads, shared);
	return leave(SUCCESS);
}
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, CUfunction f, int threads, size_t shared, u32 flags) {
	(void)flags;
	return cuOccupancyMaxActiveBlocksPerMultiprocessor(n, f, threads, shared);
}

API CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f, size_t (*shared_of)(int), size_t shared, int limit) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!grid || !block || !function_exists(f))
		return leave(INVALID_VALUE);
	int best = 0, processors = 4;
	for (int t = 32; t <= (int)max_threads(f) && (!limit || t <= limit); t += 32) {
		int n = blocks_per_multiprocessor(f, t, shared_of ? shared_of(t) : shared);
		if (n * t >= best)
			best = n * t, *block = t, *grid = n * processors;
	}
	return leave(SUCCESS);
}
API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f, size_t (*shared_of)(int), size_t shared,
	int limit, u32 flags) {
	(void)flags;
	return cuOccupancyMaxPotentialBlockSize(grid, block, f, shared_of, shared, limit);
}
