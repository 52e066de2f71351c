// Register allocation by linear scan. In PTX each value has a register of its own, thousands in a kernel. Here registers that are not live
// at the same time share a slot, so that the register file of a warp fits into the caches of the host.
//
// Registers that share a slot have one size: then a lane uses the same bytes of it for all of them, and diverged lanes do not interfere.
// A register that may be read before it is written has a slot to itself, so that the read finds the initial noise.
#include "text.h"

#include <stdlib.h>
#include <string.h>

// BasicBlock is the instructions [from, to). Sets have a bit for each register.
typedef struct {
	u32 from, to;
	u64 *uses;    // registers that it reads before it defines them
	u64 *defines; // registers that it writes in all lanes
	u64 *in;      // registers live at its beginning
} BasicBlock;

// LiveRange is the live range of a register: from its first instruction to its last, or to a branch after which it is still needed.
typedef struct {
	u32 from, to, size, at;
} LiveRange;

typedef struct {
	Kernel *kernel;
	u32 *number; // of the register at an offset, divided by 4; 0: none
	LiveRange *ranges; // by number
	u32 n, words;
	BasicBlock *blocks;
	u32 n_blocks, *block_at; // by the instruction that begins it
	u64 *sets;
} Liveness;

static u32 number_at(const Liveness *live, u32 offset) { return offset < FILE_FIRST ? 0 : live->number[offset / 4]; }
static bool has(const u64 *set, u32 n) { return set[n / 64] >> n % 64 & 1; }
static void put(u64 *set, u32 n) { set[n / 64] |= 1ull << n % 64; }

// EACH_OF runs its body for each register r among operands of an instruction, given as bits.
#define EACH_OF(which, body)                                                                                                     \
	for (u32 bits = (which); bits; bits &= bits - 1) {                                                                           \
		u32 r = number_at(live, i->operand[__builtin_ctz(bits)]);                                                                 \
		if (r) { body; }                                                                                                         \
	}

// number_registers numbers all declared registers, from 1.
static void number_registers(Liveness *live) {
	Kernel *k = live->kernel;
	for (int n = 0; n < k->n_ranges; n++)
		live->n += k->ranges[n].count;
	live->words = live->n / 64 + 1;
	live->number = grow(NULL, k->file_bytes + 4);
	live->ranges = grow(NULL, sizeof *live->ranges * (live->n + 1));
	memset(live->number, 0, k->file_bytes + 4);
	u32 number = 0;
	for (int n = 0; n < k->n_ranges; n++) {
		const Range *r = &k->ranges[n];
		for (u32 c = 0; c < r->count; c++) {
			live->number[(r->at + c * register_bytes(r->size)) / 4] = ++number;
			live->ranges[number] = (LiveRange){.from = UINT32_MAX, .size = r->size};
		}
	}
}

static void find_basic_blocks(Liveness *live) {
	const Kernel *k = live->kernel;
	u32 *at = live->block_at = grow(NULL, sizeof *at * (k->n + 1));
	memset(at, 0, sizeof *at * (k->n + 1));
	at[0] = 1;
	for (u32 n = 0; n < k->n; n++) {
		if (k->code[n].flow == BRANCH)
			at[k->code[n].target] = 1;
		if (k->code[n].flow == BRANCH || k->code[n].flow == EXIT)
			at[n + 1] = 1;
	}
	for (u32 n = 0; n < k->n; n++)
		live->n_blocks += at[n];
	live->blocks = grow(NULL, sizeof *live->blocks * live->n_blocks);
	live->sets = grow(NULL, sizeof *live->sets * 3 * live->words * live->n_blocks);
	memset(live->sets, 0, sizeof *live->sets * 3 * live->words * live->n_blocks);
	BasicBlock *s = live->blocks - 1;
	for (u32 n = 0; n < k->n; n++) {
		if (at[n]) {
			u64 *sets = live->sets + (size_t)(++s - live->blocks) * 3 * live->words;
			*s = (BasicBlock){n, n, sets, sets + live->words, sets + 2 * live->words};
			at[n] = (u32)(s - live->blocks);
		}
		s->to = n + 1;
	}
}

// find_uses_and_definitions computes which registers a basic block uses and defines.
static void find_uses_and_definitions(const Liveness *live, BasicBlock *s) {
	for (u32 n = s->from; n < s->to; n++) {
		const Ins *i = &live->kernel->code[n];
		u32 guard = number_at(live, i->guard);
		if (guard && !has(s->defines, guard))
			put(s->uses, guard);
		EACH_OF(i->reads, if (!has(s->defines, r)) put(s->uses, r))
		if (!i->guard)
			EACH_OF(i->writes, if (!has(s->uses, r)) put(s->defines, r))
	}
}

// successors returns the number of successors of a basic block, and sets next to them.
static u32 successors(const Liveness *live, const BasicBlock *s, const BasicBlock *next[2]) {
	const Ins *last = &live->kernel->code[s->to - 1];
	u32 n = 0;
	if (last->flow == BRANCH)
		next[n++] = &live->blocks[live->block_at[last->target]];
	if (s->to < live->kernel->n && (last->guard || last->flow == FALL_THROUGH || last->flow == BARRIER))
		next[n++] = s + 1;
	return n;
}

// solve_liveness computes which registers are live at the beginning of each basic block, iterating backwards to a fixed point.
static void solve_liveness(const Liveness *live) {
	for (bool changed = true; changed;) {
		changed = false;
		for (u32 n = live->n_blocks; n-- > 0;) {
			BasicBlock *s = &live->blocks[n];
			const BasicBlock *next[2];
			u32 branches = successors(live, s, next);
			for (u32 x = 0; x < live->words; x++) {
				u64 out = (branches ? next[0]->in[x] : 0) | (branches > 1 ? next[1]->in[x] : 0), in = s->uses[x] | (out & ~s->defines[x]);
				changed |= in != s->in[x];
				s->in[x] = in;
			}
		}
	}
}

static void extend_range(Liveness *live, u32 r, u32 n) {
	LiveRange *l = &live->ranges[r];
	l->from = n < l->from ? n : l->from;
	l->to = n > l->to ? n : l->to;
}

static void extend_ranges(Liveness *live, const u64 *set, u32 n) {
	for (u32 x = 0; x < live->words; x++)
		for (u64 bits = set[x]; bits; bits &= bits - 1)
			extend_range(live, x * 64 + (u32)__builtin_ctzll(bits), n);
}

static void compute_ranges(Liveness *live) {
	for (u32 n = 0; n < live->n_blocks; n++) {
		const BasicBlock *s = &live->blocks[n], *next[2];
		extend_ranges(live, s->in, s->from);
		for (u32 branches = successors(live, s, next); branches-- > 0;)
			extend_ranges(live, next[branches]->in, s->to - 1);
	}
	for (u32 n = 0; n < live->kernel->n; n++) {
		const Ins *i = &live->kernel->code[n];
		if (number_at(live, i->guard))
			extend_range(live, number_at(live, i->guard), n);
		EACH_OF(i->reads | i->writes, extend_range(live, r, n))
	}
	extend_ranges(live, live->blocks[0].in, UINT32_MAX); // used before they are defined: no other register may share their slots
}

static int by_start(const void *a, const void *b) {
	const LiveRange *l = *(LiveRange *const *)a, *m = *(LiveRange *const *)b;
	return l->from != m->from ? (l->from > m->from) - (l->from < m->from) : (l > m) - (l < m);
}

// assign_slots assigns each register of a size to the first free slot from `from` on, and returns the end of the slots.
static u32 assign_slots(LiveRange **ranges, u32 n, u32 size, u32 from) {
	u32 *free_after = grow(NULL, sizeof *free_after * (n + 1)), slots = 0;
	for (u32 l = 0; l < n; l++) {
		u32 p = 0;
		if (ranges[l]->size != size)
			continue;
		while (p < slots && free_after[p] >= ranges[l]->from)
			p++;
		slots += p == slots;
		free_after[p] = ranges[l]->to;
		ranges[l]->at = from + p * register_bytes(size);
	}
	free(free_after);
	return (from + slots * register_bytes(size) + 63) / 64 * 64;
}

static u32 assign_registers(Liveness *live) {
	static const u32 sizes[] = {8, 4, 2, 1, 0};
	LiveRange **order = grow(NULL, sizeof *order * (live->n + 1));
	u32 n = 0, end = FILE_FIRST;
	for (u32 r = 1; r <= live->n; r++)
		if (live->ranges[r].from != UINT32_MAX)
			order[n++] = &live->ranges[r];
	qsort(order, n, sizeof *order, by_start);
	for (u32 s = 0; s < sizeof sizes / sizeof *sizes; s++)
		end = assign_slots(order, n, sizes[s], end);
	free(order);
	return end;
}

// rewrite_operands moves constants behind the registers, and replaces the offsets in the code.
static void rewrite_operands(Liveness *live, u32 end) {
	Kernel *k = live->kernel;
	u32 *moved = grow(NULL, k->file_bytes + 4);
	for (u32 offset = 0; offset <= k->file_bytes; offset += 4)
		moved[offset / 4] = number_at(live, offset) ? live->ranges[number_at(live, offset)].at : offset;
	for (int c = 0; c < k->n_constants; c++) {
		u32 size = register_bytes(k->constants[c].size);
		moved[k->constants[c].at / 4] = end;
		k->constants[c].at = end;
		end += (size + 63) / 64 * 64;
	}
	for (u32 n = 0; n < k->n; n++) {
		Ins *i = &k->code[n];
		i->guard = moved[i->guard / 4];
		for (u32 bits = i->reads | i->writes; bits; bits &= bits - 1)
			i->operand[__builtin_ctz(bits)] = moved[i->operand[__builtin_ctz(bits)] / 4];
	}
	k->file_bytes = end;
	free(moved);
}

// allocate_registers runs once for a kernel, before its first launch.
void allocate_registers(Kernel *k) {
	Liveness live = {.kernel = k};
	number_registers(&live);
	find_basic_blocks(&live);
	for (u32 n = 0; n < live.n_blocks; n++)
		find_uses_and_definitions(&live, &live.blocks[n]);
	solve_liveness(&live);
	compute_ranges(&live);
	rewrite_operands(&live, assign_registers(&live));
	k->registers_allocated = true;
	free(live.number), free(live.ranges), free(live.blocks), free(live.block_at), free(live.sets);
}
