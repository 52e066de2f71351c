// Blocks, their barriers, and their distribution over host threads.
//
// Warps of a block run one after the other, each until a barrier. Blocks are independent, and run by whichever host thread is free: the
// result does not depend on it.
#include "machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const u64 max_instructions = 1ull << 31; // of a block, which is then reported as endless
static const u64 worth_threads = 20000;         // instructions of all blocks but the first that pay for starting threads

// report_deadlock reports warps that wait for others that will never arrive.
__attribute__((noreturn)) static void report_deadlock(Block *b, Warp *w) {
	u32 ended = 0, elsewhere = 0;
	for (u32 v = 0; v < b->launch->warps; v++) {
		ended += !b->warps[v].alive;
		elsewhere += b->warps[v].alive && b->warps[v].waiting_at != w->waiting_at;
	}
	const Barrier *bar = &b->barriers[w->waiting_at];
	const Ins *i = &b->launch->kernel->code[(w->split ? w->pcs[__builtin_ctz(w->alive)] : w->pc) - 1];
	report(w, i, __builtin_ctz(w->alive), DIVERGENT_BARRIER, "barrier %d has %u of %u threads and nobody is left to come: %u warps of the "
		"block ended, %u wait elsewhere", w->waiting_at, bar->arrived, bar->expected, ended, elsewhere);
}

static void run_warps(Block *b) {
	for (bool alive = true; alive;) {
		bool ran = false;
		Warp *waiting = NULL;
		alive = false;
		for (u32 n = 0; n < b->launch->warps; n++) {
			Warp *w = &b->warps[n];
			if (w->alive && w->waiting_at < 0) {
				run_warp(w);
				ran = true;
			}
			alive |= w->alive != 0;
			if (w->alive && w->waiting_at >= 0 && !waiting)
				waiting = w;
		}
		if (waiting && !ran)
			report_deadlock(b, waiting);
		if (b->executed > max_instructions)
			report(&b->warps[0], b->launch->kernel->code, 0, ENDLESS, "the block has executed %llu warp instructions and goes on; look at the "
				"condition that ends its loops", (unsigned long long)b->executed);
	}
}

static void begin_block(Block *b, u64 number) {
	const Launch *l = b->launch;
	b->number = number;
	b->at[0] = (u32)(number % l->grid[0]);
	b->at[1] = (u32)(number / l->grid[0] % l->grid[1]);
	b->at[2] = (u32)(number / l->grid[0] / l->grid[1]);
	b->start = ++b->clock;
	b->executed = 0;
	memset(b->seen, 0, sizeof b->seen);
	memset(b->barriers, 0, sizeof b->barriers);
	memset(b->shared_valid, 0, l->shared_bytes);
	for (u32 n = 0; n < l->warps; n++)
		begin_warp(b, &b->warps[n]);
}

// buffer_for returns zeroed memory, reused from an earlier launch if that is large enough.
static void *buffer_for(Buffer *buffer, size_t n) {
	if (n > buffer->size) {
		free(buffer->bytes);
		buffer->size = (n + 4095) / 4096 * 4096;
		buffer->bytes = aligned_alloc(64, buffer->size);
		if (!buffer->bytes) {
			fprintf(stderr, "emulated device: the host has no %zu bytes of memory left for a launch\n", n);
			abort();
		}
		memset(buffer->bytes, 0, buffer->size);
	}
	return buffer->bytes;
}

// Blocks that no launch uses. The next launch reuses their memory; the clock goes on, so that old records of shared memory are in the past.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Block *idle_blocks;

static Block *reuse_block(void) {
	pthread_mutex_lock(&lock);
	Block *b = idle_blocks;
	idle_blocks = b ? b->next : NULL;
	pthread_mutex_unlock(&lock);
	if (!b)
		b = buffer_for(&(Buffer){0}, sizeof *b);
	if (b->clock > UINT32_MAX / 2) {
		memset(b->buffers[LINES].bytes, 0, b->buffers[LINES].size); // a line without records makes those of its words invalid
		b->clock = 0;
	}
	return b;
}

static Block *open_block(Launch *l) {
	const Kernel *k = l->kernel;
	Block *b = reuse_block();
	size_t local = (size_t)k->local_bytes * LANES, file = (k->file_bytes + 63) / 64 * 64;
	b->launch = l;
	b->last = NULL;
	b->shared = buffer_for(&b->buffers[SHARED_BYTES], l->shared_bytes + 64);
	b->shared_valid = buffer_for(&b->buffers[SHARED_VALID], l->shared_bytes + 64);
	b->lines = (Line *)buffer_for(&b->buffers[LINES], (l->shared_bytes / 16 + 2) * sizeof *b->lines);
	b->words = (SharedRecord *)buffer_for(&b->buffers[WORDS], (l->shared_bytes / 4 + 8) * sizeof *b->words);
	u8 *files = buffer_for(&b->buffers[FILES], file * l->warps), *locals = buffer_for(&b->buffers[LOCALS], 2 * local * l->warps + 8);
	for (u32 n = 0; n < l->warps; n++) {
		Warp *w = &b->warps[n];
		w->block = b;
		w->id = n;
		w->file = files + file * n;
		w->local = locals + 2 * local * n;
		w->local_valid = w->local + local;
		set_constants(w, k);
	}
	return b;
}

static void close_block(Block *b) {
	pthread_mutex_lock(&lock);
	b->next = idle_blocks;
	idle_blocks = b;
	pthread_mutex_unlock(&lock);
}

static void run_block(Block *b) {
	if (setjmp(b->stop) == 0)
		run_warps(b);
}

// run_next_block runs the next block, unless none is left or a lower one has a finding.
static bool run_next_block(Block *b) {
	Launch *l = b->launch;
	u64 n = atomic_fetch_add(&l->next, 1);
	if (n >= l->blocks || n >= l->failed)
		return false;
	begin_block(b, n);
	run_block(b);
	atomic_fetch_add(&l->executed, b->executed);
	return true;
}

static void *run_blocks(void *launch) {
	Block *b = open_block(launch);
	while (run_next_block(b)) {}
	close_block(b);
	return NULL;
}

// host_threads is GRPO_EMU_THREADS, or the number of cores.
u32 host_threads(void) {
	const char *s = getenv("GRPO_EMU_THREADS");
	long n = s && *s ? strtol(s, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n > 256 ? 256 : (u32)n;
}

// run_launch runs the first block, and starts more threads for the others only if that was long enough to pay for them.
void run_launch(Launch *l) {
	pthread_t helpers[256];
	u32 n = 0, threads = host_threads();
	l->blocks = (u64)l->grid[0] * l->grid[1] * l->grid[2];
	l->failed = UINT64_MAX;
	if (!l->kernel->registers_allocated)
		allocate_registers(l->kernel);
	Block *b = open_block(l);
	run_next_block(b);
	if (l->executed * (l->blocks - 1) < worth_threads)
		threads = 1;
	while (n + 1 < threads && n + 2 < l->blocks && pthread_create(&helpers[n], NULL, run_blocks, l) == 0)
		n++;
	while (run_next_block(b)) {}
	close_block(b);
	while (n-- > 0)
		pthread_join(helpers[n], NULL);
}
