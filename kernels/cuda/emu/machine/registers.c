// Register allocation. A compiler gives each value a register of its own, thousands in a kernel. Here registers that are not live at the
// same time share a place, so that the register file of a warp fits into the caches of the host.
//
// Registers that share a place have one size, so that a lane has the same bytes of it for all of them, and diverged lanes do not
// interfere. A register that may be read before it is written has a place to itself, which begins with noise.
#include "text.h"

#include <stdlib.h>
#include <string.h>

// Stretch is a basic block. Sets have a bit for each register.
typedef struct {
	u32 from, to;
	u64 *uses;    // before it defines them
	u64 *defines; // for all lanes that pass
	u64 *in;      // live at its beginning
} Stretch;

// Life is the live range of a register: from its first instruction to its last, or to a branch after which it is still needed.
typedef struct {
	u32 from, to, size, at;
} Life;

typedef struct {
	Kernel *kernel;
	u32 *number; // of the register or constant at a place, divided by 4; 0: none
	Life *lives; // by number
	u32 n, words;
	Stretch *stretches;
	u32 n_stretches, *stretch_at; // by the instruction that begins it
	u64 *sets;
} Lives;

static u32 number_at(const Lives *all, u32 place) { return place < FILE_FIRST ? 0 : all->number[place / 4]; }
static bool has(const u64 *set, u32 n) { return set[n / 64] >> n % 64 & 1; }
static void put(u64 *set, u32 n) { set[n / 64] |= 1ull << n % 64; }

// EACH_OF goes through the registers that an instruction reads, or writes.
#define EACH_OF(which, body)                                                                                                     \
	for (u32 bits = (which); bits; bits &= bits - 1) {                                                                           \
		u32 r = number_at(all, i->operand[__builtin_ctz(bits)]);                                                                 \
		if (r) { body; }                                                                                                         \
	}

// name_places numbers all declared registers and constants.
static void name_places(Lives *all) {
	Kernel *k = all->kernel;
	for (int n = 0; n < k->n_ranges; n++)
		all->n += k->ranges[n].count;
	all->words = all->n / 64 + 1;
	all->number = grow(NULL, k->file_bytes + 4);
	all->lives = grow(NULL, sizeof *all->lives * (all->n + 1));
	memset(all->number, 0, k->file_bytes + 4);
	u32 number = 0;
	for (int n = 0; n < k->n_ranges; n++) {
		const Range *r = &k->ranges[n];
		for (u32 c = 0; c < r->count; c++) {
			all->number[(r->at + c * room_of(r->size)) / 4] = ++number;
			all->lives[number] = (Life){.from = UINT32_MAX, .size = r->size};
		}
	}
}

static void cut_into_stretches(Lives *all) {
	const Kernel *k = all->kernel;
	u32 *at = all->stretch_at = grow(NULL, sizeof *at * (k->n + 1));
	memset(at, 0, sizeof *at * (k->n + 1));
	at[0] = 1;
	for (u32 n = 0; n < k->n; n++) {
		if (k->code[n].flow == BRANCH)
			at[k->code[n].target] = 1;
		if (k->code[n].flow == BRANCH || k->code[n].flow == EXIT)
			at[n + 1] = 1;
	}
	for (u32 n = 0; n < k->n; n++)
		all->n_stretches += at[n];
	all->stretches = grow(NULL, sizeof *all->stretches * all->n_stretches);
	all->sets = grow(NULL, sizeof *all->sets * 3 * all->words * all->n_stretches);
	memset(all->sets, 0, sizeof *all->sets * 3 * all->words * all->n_stretches);
	Stretch *s = all->stretches - 1;
	for (u32 n = 0; n < k->n; n++) {
		if (at[n]) {
			u64 *sets = all->sets + (size_t)(++s - all->stretches) * 3 * all->words;
			*s = (Stretch){n, n, sets, sets + all->words, sets + 2 * all->words};
			at[n] = (u32)(s - all->stretches);
		}
		s->to = n + 1;
	}
}

// summarise computes what a stretch uses and defines.
static void summarise(const Lives *all, Stretch *s) {
	for (u32 n = s->from; n < s->to; n++) {
		const Ins *i = &all->kernel->code[n];
		u32 guard = number_at(all, i->guard);
		if (guard && !has(s->defines, guard))
			put(s->uses, guard);
		EACH_OF(i->reads, if (!has(s->defines, r)) put(s->uses, r))
		if (!i->guard)
			EACH_OF(i->writes, if (!has(s->uses, r)) put(s->defines, r))
	}
}

// next_of returns the number of successors of a stretch, and sets next to them.
static u32 next_of(const Lives *all, const Stretch *s, const Stretch *next[2]) {
	const Ins *last = &all->kernel->code[s->to - 1];
	u32 n = 0;
	if (last->flow == BRANCH)
		next[n++] = &all->stretches[all->stretch_at[last->target]];
	if (s->to < all->kernel->n && (last->guard || last->flow == STRAIGHT || last->flow == BARRIER))
		next[n++] = s + 1;
	return n;
}

// flow_back computes what is live at the beginning of each stretch.
static void flow_back(const Lives *all) {
	for (bool changed = true; changed;) {
		changed = false;
		for (u32 n = all->n_stretches; n-- > 0;) {
			Stretch *s = &all->stretches[n];
			const Stretch *next[2];
			u32 branches = next_of(all, s, next);
			for (u32 x = 0; x < all->words; x++) {
				u64 out = (branches ? next[0]->in[x] : 0) | (branches > 1 ? next[1]->in[x] : 0), in = s->uses[x] | (out & ~s->defines[x]);
				changed |= in != s->in[x];
				s->in[x] = in;
			}
		}
	}
}

static void lives_at(Lives *all, u32 r, u32 n) {
	Life *l = &all->lives[r];
	l->from = n < l->from ? n : l->from;
	l->to = n > l->to ? n : l->to;
}

static void lives_all(Lives *all, const u64 *set, u32 n) {
	for (u32 x = 0; x < all->words; x++)
		for (u64 bits = set[x]; bits; bits &= bits - 1)
			lives_at(all, x * 64 + (u32)__builtin_ctzll(bits), n);
}

static void measure(Lives *all) {
	for (u32 n = 0; n < all->n_stretches; n++) {
		const Stretch *s = &all->stretches[n], *next[2];
		lives_all(all, s->in, s->from);
		for (u32 branches = next_of(all, s, next); branches-- > 0;)
			lives_all(all, next[branches]->in, s->to - 1);
	}
	for (u32 n = 0; n < all->kernel->n; n++) {
		const Ins *i = &all->kernel->code[n];
		if (number_at(all, i->guard))
			lives_at(all, number_at(all, i->guard), n);
		EACH_OF(i->reads | i->writes, lives_at(all, r, n))
	}
	lives_all(all, all->stretches[0].in, UINT32_MAX); // used before it is defined: nothing else may be there
}

static int by_start(const void *a, const void *b) {
	const Life *l = *(Life *const *)a, *m = *(Life *const *)b;
	return l->from != m->from ? (l->from > m->from) - (l->from < m->from) : (l > m) - (l < m);
}

// share assigns registers of a size to places from `from` on, each to the first one free, and returns their end.
static u32 share(Life **lives, u32 n, u32 size, u32 from) {
	u32 *free_after = grow(NULL, sizeof *free_after * (n + 1)), places = 0;
	for (u32 l = 0; l < n; l++) {
		u32 p = 0;
		if (lives[l]->size != size)
			continue;
		while (p < places && free_after[p] >= lives[l]->from)
			p++;
		places += p == places;
		free_after[p] = lives[l]->to;
		lives[l]->at = from + p * room_of(size);
	}
	free(free_after);
	return (from + places * room_of(size) + 63) / 64 * 64;
}

static u32 give_places(Lives *all) {
	static const u32 sizes[] = {8, 4, 2, 1, 0};
	Life **order = grow(NULL, sizeof *order * (all->n + 1));
	u32 n = 0, end = FILE_FIRST;
	for (u32 r = 1; r <= all->n; r++)
		if (all->lives[r].from != UINT32_MAX)
			order[n++] = &all->lives[r];
	qsort(order, n, sizeof *order, by_start);
	for (u32 s = 0; s < sizeof sizes / sizeof *sizes; s++)
		end = share(order, n, sizes[s], end);
	free(order);
	return end;
}

// move puts constants after the registers, and the new places into the code.
static void move(Lives *all, u32 end) {
	Kernel *k = all->kernel;
	u32 *moved = grow(NULL, k->file_bytes + 4);
	for (u32 place = 0; place <= k->file_bytes; place += 4)
		moved[place / 4] = number_at(all, place) ? all->lives[number_at(all, place)].at : place;
	for (int c = 0; c < k->n_constants; c++) {
		u32 size = room_of(k->constants[c].size);
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

// place_registers runs once for a kernel, before its first launch.
void place_registers(Kernel *k) {
	Lives all = {.kernel = k};
	name_places(&all);
	cut_into_stretches(&all);
	for (u32 n = 0; n < all.n_stretches; n++)
		summarise(&all, &all.stretches[n]);
	flow_back(&all);
	measure(&all);
	move(&all, give_places(&all));
	k->placed = true;
	free(all.number), free(all.lives), free(all.stretches), free(all.stretch_at), free(all.sets);
}
