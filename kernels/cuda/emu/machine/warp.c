// A warp: 32 lanes that share a program counter until a branch diverges. Then the lanes at the lowest one run first, so that lanes
// reconverge where the code joins.
#include "machine.h"
#include "text.h"

#include <string.h>

enum { SLICE = 1 << 16 };

static u32 lowest(Warp *w) {
	u32 pc = UINT32_MAX, here = 0;
	for (u32 l = 0; l < LANES; l++)
		pc = w->pcs[l] < pc ? w->pcs[l] : pc;
	for (u32 l = 0; l < LANES; l++)
		here |= w->pcs[l] == pc ? 1u << l : 0;
	w->pc = pc;
	if (here == w->alive)
		w->split = false;
	return here;
}

static void split(Warp *w) {
	for (u32 l = 0; l < LANES; l++)
		w->pcs[l] = w->alive >> l & 1 ? w->pc : UINT32_MAX;
	w->split = true;
}

static inline void go(Warp *w, u32 lanes, u32 pc) {
	if (!w->split) {
		w->pc = pc;
		return;
	}
	for (u32 l = 0; l < LANES; l++)
		w->pcs[l] = lanes >> l & 1 ? pc : w->pcs[l];
}

static void branch(Warp *w, u32 here, u32 taken, u32 target) {
	u32 next = w->pc + 1;
	if (taken && taken != here && !w->split)
		split(w);
	if (taken)
		go(w, taken, target);
	if (taken != here)
		go(w, here & ~taken, next);
}

static void leave(Warp *w, const Ins *i, u32 here, u32 ended) {
	if (i->has && ended)
		find(w, i, __builtin_ctz(ended), BAD_INSTRUCTION, "it comes to a trap");
	u32 next = w->pc + 1;
	if (ended != here && !w->split)
		split(w);
	w->alive &= ~ended;
	if (w->split) {
		go(w, here, next);
		go(w, ended, UINT32_MAX);
	}
}

void release_barrier(Block *b, u32 id) {
	Barrier *bar = &b->barriers[id];
	u32 known[MOST_WARPS] = {0};
	b->clock++;
	for (u32 v = 0; v < b->launch->warps; v++)
		for (u32 u = 0; u < b->launch->warps && bar->members >> v & 1; u++)
			known[u] = b->seen[v][u] > known[u] ? b->seen[v][u] : known[u];
	for (u32 v = 0; v < b->launch->warps; v++) {
		if (!(bar->members >> v & 1))
			continue;
		for (u32 u = 0; u < b->launch->warps; u++)
			b->seen[v][u] = bar->members >> u & 1 ? b->clock : known[u];
		if (b->warps[v].waits == (int)id)
			b->warps[v].waits = -1;
	}
	*bar = (Barrier){0};
}

// arrive counts a warp in at a barrier. All its lanes must arrive together.
static void arrive(Warp *w, const Ins *i, u32 here, u32 mask) {
	Block *b = w->block;
	u32 id = *REG(u32, 0), all = b->launch->warps * LANES, threads = i->has & 1 ? *REG(u32, 1) : all;
	u32 begun = b->launch->threads - w->id * LANES >= LANES ? ~0u : (1u << b->launch->threads % LANES) - 1;
	if (id >= MOST_BARRIERS || threads % LANES || !threads || threads > all)
		find(w, i, 0, DIVERGENT_BARRIER, "no barrier %u for %u threads; there are %d, for multiples of 32 threads of the block", id, threads,
			MOST_BARRIERS);
	if (mask != begun)
		find(w, i, mask ? __builtin_ctz(mask) : 0, DIVERGENT_BARRIER, "lanes 0x%08x come to the barrier without the warp's others (0x%08x), "
			"which %s; let all of them come, or none", mask, begun & ~mask, begun & ~w->alive ? "ended" : "are elsewhere");
	Barrier *bar = &b->barriers[id];
	if (bar->arrived && bar->expected != threads)
		find(w, i, 0, DIVERGENT_BARRIER, "barrier %u is for %u threads here and for %u elsewhere", id, threads, bar->expected);
	bar->expected = threads;
	bar->members |= 1u << w->id;
	bar->arrived += LANES;
	go(w, here, w->pc + 1);
	if (!(i->has & 2))
		w->waits = (int)id;
	if (bar->arrived >= bar->expected)
		release_barrier(b, id);
}

// run_warp executes until a barrier, the end, or the end of its slice.
void run_warp(Warp *w) {
	const Ins *code = w->block->launch->kernel->code;
	for (u32 left = SLICE; left && w->alive && w->waits < 0; left--) {
		u32 here = w->split ? lowest(w) : w->alive;
		const Ins *i = &code[w->pc];
		u32 mask = here;
		if (i->guard) {
			u32 p = *(u32 *)(w->file + i->guard);
			mask &= i->negate ? ~p : p;
		}
		w->block->executed++;
		switch ((Flow)i->flow) {
		case STRAIGHT:
			if (mask)
				i->run(w, i, mask);
			go(w, here, w->pc + 1);
			break;
		case BRANCH: branch(w, here, mask, i->target); break;
		case EXIT: leave(w, i, here, mask); break;
		case BARRIER:
			if (mask)
				arrive(w, i, here, mask);
			else
				go(w, here, w->pc + 1);
		}
	}
}

static void fill(Warp *w, u32 at, u32 value) {
	for (u32 l = 0; l < LANES; l++)
		((u32 *)(w->file + at))[l] = value;
}

// begin_warp sets the registers that the hardware sets; the others hold noise.
void begin_warp(Block *b, Warp *w) {
	const Launch *l = b->launch;
	u32 first = w->id * LANES, left = l->threads - first;
	w->alive = left >= LANES ? ~0u : (1u << left) - 1;
	w->split = false;
	w->pc = 0;
	w->waits = -1;
	w->n_copies = 0;
	memset(w->groups, 0, sizeof w->groups);
	if (l->kernel->local_bytes)
		memset(w->local_valid, 0, (size_t)l->kernel->local_bytes * LANES);
	for (u32 d = 0; d < 3; d++) {
		fill(w, CTAID + 128 * d, b->at[d]);
		fill(w, NCTAID + 128 * d, l->grid[d]);
		fill(w, NTID + 128 * d, l->block[d]);
	}
	fill(w, WARP_ID, w->id);
	fill(w, DYNAMIC_SIZE, l->dynamic);
	for (u32 n = 0; n < LANES; n++) {
		u32 thread = first + n, masks[] = {(1u << n) - 1, (2u << n) - 1, 1u << n, ~((1u << n) - 1), ~((2u << n) - 1)};
		((u32 *)(w->file + TID))[n] = thread % l->block[0];
		((u32 *)(w->file + TID + 128))[n] = thread / l->block[0] % l->block[1];
		((u32 *)(w->file + TID + 256))[n] = thread / l->block[0] / l->block[1];
		((u32 *)(w->file + LANE_ID))[n] = n;
		for (u32 m = 0; m < 5; m++)
			((u32 *)(w->file + LANE_MASKS + 128 * m))[n] = masks[m];
	}
}

// set_constants fills all registers with noise, and sets the constants.
void set_constants(Warp *w, const Kernel *k) {
	memset(w->file + FILE_FIRST, 0xff, k->file_bytes - FILE_FIRST);
	for (int n = 0; n < k->n_constants; n++) {
		const Constant *c = &k->constants[n];
		if (!c->size)
			memcpy(w->file + c->at, &c->value, 4);
		for (u32 l = 0; l < LANES && c->size; l++)
			memcpy(w->file + c->at + l * c->size, &c->value, c->size);
	}
}
