// A warp: 32 lanes that share a program counter until a branch diverges. Then the lanes at the lowest one run first, so that lanes
// reconverge where the code joins.
#include "machine.h"
#include "text.h"

#include <string.h>

enum { SLICE = 1 << 16 };

static u32 lanes_at_lowest_pc(Warp *w) {
	u32 pc = UINT32_MAX, active = 0;
	for (u32 l = 0; l < LANES; l++)
		pc = w->pcs[l] < pc ? w->pcs[l] : pc;
	for (u32 l = 0; l < LANES; l++)
		active |= w->pcs[l] == pc ? 1u << l : 0;
	w->pc = pc;
	if (active == w->alive)
		w->split = false;
	return active;
}

static void split(Warp *w) {
	for (u32 l = 0; l < LANES; l++)
		w->pcs[l] = w->alive >> l & 1 ? w->pc : UINT32_MAX;
	w->split = true;
}

static inline void set_pc(Warp *w, u32 lanes, u32 pc) {
	if (!w->split) {
		w->pc = pc;
		return;
	}
	for (u32 l = 0; l < LANES; l++)
		w->pcs[l] = lanes >> l & 1 ? pc : w->pcs[l];
}

static void branch(Warp *w, u32 active, u32 taken, u32 target) {
	u32 next = w->pc + 1;
	if (taken && taken != active && !w->split)
		split(w);
	if (taken)
		set_pc(w, taken, target);
	if (taken != active)
		set_pc(w, active & ~taken, next);
}

static void exit_lanes(Warp *w, const Ins *i, u32 active, u32 ended) {
	if (i->variant && ended)
		report(w, i, __builtin_ctz(ended), BAD_INSTRUCTION, "it comes to a trap");
	u32 next = w->pc + 1;
	if (ended != active && !w->split)
		split(w);
	w->alive &= ~ended;
	if (w->split) {
		set_pc(w, active, next);
		set_pc(w, ended, UINT32_MAX);
	}
}

void release_barrier(Block *b, u32 id) {
	Barrier *bar = &b->barriers[id];
	u32 known[MAX_WARPS] = {0};
	b->clock++;
	for (u32 v = 0; v < b->launch->warps; v++)
		for (u32 u = 0; u < b->launch->warps && bar->members >> v & 1; u++)
			known[u] = b->seen[v][u] > known[u] ? b->seen[v][u] : known[u];
	for (u32 v = 0; v < b->launch->warps; v++) {
		if (!(bar->members >> v & 1))
			continue;
		for (u32 u = 0; u < b->launch->warps; u++)
			b->seen[v][u] = bar->members >> u & 1 ? b->clock : known[u];
		if (b->warps[v].waiting_at == (int)id)
			b->warps[v].waiting_at = -1;
	}
	*bar = (Barrier){0};
}

// arrive_at_barrier counts a warp in at a barrier. All its lanes must arrive together.
static void arrive_at_barrier(Warp *w, const Ins *i, u32 active, u32 mask) {
	Block *b = w->block;
	u32 id = *REG(u32, 0), all = b->launch->warps * LANES, threads = i->variant & 1 ? *REG(u32, 1) : all;
	u32 started = b->launch->threads - w->id * LANES >= LANES ? ~0u : (1u << b->launch->threads % LANES) - 1;
	if (id >= MAX_BARRIERS || threads % LANES || !threads || threads > all)
		report(w, i, 0, DIVERGENT_BARRIER, "no barrier %u for %u threads; there are %d, for multiples of 32 threads of the block", id, threads,
			MAX_BARRIERS);
	if (mask != started)
		report(w, i, mask ? __builtin_ctz(mask) : 0, DIVERGENT_BARRIER, "lanes 0x%08x come to the barrier without the warp's others (0x%08x), "
			"which %s; let all of them come, or none", mask, started & ~mask, started & ~w->alive ? "ended" : "are elsewhere");
	Barrier *bar = &b->barriers[id];
	if (bar->arrived && bar->expected != threads)
		report(w, i, 0, DIVERGENT_BARRIER, "barrier %u is for %u threads here and for %u elsewhere", id, threads, bar->expected);
	bar->expected = threads;
	bar->members |= 1u << w->id;
	bar->arrived += LANES;
	set_pc(w, active, w->pc + 1);
	if (!(i->variant & 2))
		w->waiting_at = (int)id;
	if (bar->arrived >= bar->expected)
		release_barrier(b, id);
}

// run_warp executes until a barrier, the end, or the end of its slice.
void run_warp(Warp *w) {
	const Ins *code = w->block->launch->kernel->code;
	for (u32 left = SLICE; left && w->alive && w->waiting_at < 0; left--) {
		u32 active = w->split ? lanes_at_lowest_pc(w) : w->alive;
		const Ins *i = &code[w->pc];
		u32 mask = active;
		if (i->guard) {
			u32 p = *(u32 *)(w->file + i->guard);
			mask &= i->negate ? ~p : p;
		}
		w->block->executed++;
		switch ((Flow)i->flow) {
		case FALL_THROUGH:
			if (mask)
				i->run(w, i, mask);
			set_pc(w, active, w->pc + 1);
			break;
		case BRANCH: branch(w, active, mask, i->target); break;
		case EXIT: exit_lanes(w, i, active, mask); break;
		case BARRIER:
			if (mask)
				arrive_at_barrier(w, i, active, mask);
			else
				set_pc(w, active, w->pc + 1);
		}
	}
}

static void fill_register(Warp *w, u32 at, u32 value) {
	for (u32 l = 0; l < LANES; l++)
		((u32 *)(w->file + at))[l] = value;
}

// begin_warp sets the special registers.
void begin_warp(Block *b, Warp *w) {
	const Launch *l = b->launch;
	u32 first = w->id * LANES, left = l->threads - first;
	w->alive = left >= LANES ? ~0u : (1u << left) - 1;
	w->split = false;
	w->pc = 0;
	w->waiting_at = -1;
	w->n_copies = 0;
	memset(w->committed_groups, 0, sizeof w->committed_groups);
	if (l->kernel->local_bytes)
		memset(w->local_valid, 0, (size_t)l->kernel->local_bytes * LANES);
	for (u32 d = 0; d < 3; d++) {
		fill_register(w, CTAID + 128 * d, b->at[d]);
		fill_register(w, NCTAID + 128 * d, l->grid[d]);
		fill_register(w, NTID + 128 * d, l->block[d]);
	}
	fill_register(w, WARP_ID, w->id);
	fill_register(w, DYNAMIC_SIZE, l->dynamic);
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

// set_constants fills registers with 0xff bytes, so that the use of one that was never written shows, and sets the constants.
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
