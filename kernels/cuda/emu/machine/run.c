// Blocks, their barriers, and blocks over threads of the host.
//
// Warps of a block run one after the other, each until a barrier. Blocks are independent, and taken by whichever thread of the
// host is free: the result does not depend on it.
#include "machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const u64 most_instructions = 1ull << 31; // of a block: then it is called endless

// stuck tells of warps that wait for others that will not come.
__attribute__((noreturn)) static void stuck(Block *b, Warp *w) {
	u32 ended = 0, elsewhere = 0;
	for (u32 v = 0; v < b->launch->warps; v++) {
		ended += !b->warps[v].alive;
		elsewhere += b->warps[v].alive && b->warps[v].waits != w->waits;
	}
	const Barrier *bar = &b->barriers[w->waits];
	const Ins *i = &b->launch->kernel->code[(w->split ? w->pcs[__builtin_ctz(w->alive)] : w->pc) - 1];
	find(w, i, __builtin_ctz(w->alive), DIVERGENT_BARRIER, "barrier %d has %u of %u threads and nobody is left to come: %u warps of the block "
		"ended, %u wait elsewhere", w->waits, bar->arrived, bar->expected, ended, elsewhere);
}

static void run_warps(Block *b) {
	for (bool alive = true; alive;) {
		bool ran = false;
		Warp *waiting = NULL;
		alive = false;
		for (u32 n = 0; n < b->launch->warps; n++) {
			Warp *w = &b->warps[n];
			if (w->alive && w->waits < 0) {
				run_warp(w);
				ran = true;
			}
			alive |= w->alive != 0;
			if (w->alive && w->waits >= 0 && !waiting)
				waiting = w;
		}
		if (waiting && !ran)
			stuck(b, waiting);
		if (b->executed > most_instructions)
			find(&b->warps[0], b->launch->kernel->code, 0, ENDLESS, "the block has executed %llu warp instructions and goes on; look at the "
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

static void *room_for(size_t n) {
	void *p = aligned_alloc(64, (n + 64) / 64 * 64);
	if (!p) {
		fprintf(stderr, "emulated device: the host has no %zu bytes of memory left for a launch\n", n);
		abort();
	}
	memset(p, 0, n);
	return p;
}

static Block *open_block(Launch *l) {
	const Kernel *k = l->kernel;
	Block *b = room_for(sizeof *b);
	b->launch = l;
	b->shared = room_for(l->shared_bytes + 64);
	b->shared_valid = room_for(l->shared_bytes + 64);
	b->lines = room_for((l->shared_bytes / 16 + 2) * sizeof *b->lines);
	for (u32 n = 0; n < l->warps; n++) {
		Warp *w = &b->warps[n];
		w->block = b;
		w->id = n;
		w->file = room_for(k->file_bytes);
		w->local = room_for((size_t)k->local_bytes * LANES);
		w->local_valid = room_for((size_t)k->local_bytes * LANES);
		set_constants(w, k);
	}
	return b;
}

static void close_block(Block *b) {
	for (u32 n = 0; n < b->launch->warps; n++) {
		Warp *w = &b->warps[n];
		free(w->file), free(w->local), free(w->local_valid), free(w->copies);
	}
	free(b->shared), free(b->shared_valid), free(b->lines), free(b);
}

static void run_block(Block *b) {
	if (setjmp(b->stop) == 0)
		run_warps(b);
}

// work takes blocks in ascending order until none is left, or a lower one has found something.
static void *work(void *launch) {
	Launch *l = launch;
	Block *b = open_block(l);
	for (u64 n; (n = atomic_fetch_add(&l->next, 1)) < l->blocks && n < l->failed;) {
		begin_block(b, n);
		run_block(b);
		atomic_fetch_add(&l->executed, b->executed);
	}
	close_block(b);
	return NULL;
}

// host_threads is GRPO_EMU_THREADS, or the number of cores.
u32 host_threads(void) {
	const char *s = getenv("GRPO_EMU_THREADS");
	long n = s && *s ? strtol(s, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n > 256 ? 256 : (u32)n;
}

void run_launch(Launch *l) {
	pthread_t helpers[256];
	u32 n = 0, threads = host_threads();
	l->blocks = (u64)l->grid[0] * l->grid[1] * l->grid[2];
	l->failed = UINT64_MAX;
	while (n + 1 < threads && n + 1 < l->blocks && pthread_create(&helpers[n], NULL, work, l) == 0)
		n++;
	work(l);
	while (n-- > 0)
		pthread_join(helpers[n], NULL);
}
