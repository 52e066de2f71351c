// Instructions of a whole warp. The member mask names the lanes that take part: all of them must execute the instruction together.
#include "machine.h"

#include <string.h>

// check_members checks the member masks of the lanes that execute i now, which are those in mask.
static void check_members(Warp *w, const Ins *i, u32 mask, u32 operand) {
	const u32 *m = REG(u32, operand);
	for (int l = 0; l < LANES; l++) {
		if (!(mask >> l & 1))
			continue;
		if (!(m[l] >> l & 1))
			report(w, i, l, LANE_MASK, "its member mask 0x%08x lacks the lane itself; name the lanes that come here", m[l]);
		if (m[l] & ~w->alive)
			report(w, i, l, LANE_MASK, "its member mask 0x%08x names lanes that have ended (0x%08x); name the lanes that come here", m[l],
				m[l] & ~w->alive);
		if (m[l] & ~mask)
			report(w, i, l, LANE_MASK, "its member mask 0x%08x names lanes that are elsewhere (0x%08x); let them come here, or leave them out",
				m[l], m[l] & ~mask);
	}
}

typedef enum { UP, DOWN, BUTTERFLY, INDEX } Shuffle;

// A shuffle: c has the last lane of a segment in its low bits, and from bit 8 on the mask that divides warps into segments.
static inline void shuffle(Warp *w, const Ins *i, u32 mask, Shuffle mode) {
	check_members(w, i, mask, 5);
	u32 *d = REG(u32, 0), a[LANES], found = 0;
	const u32 *b = REG(u32, 3), *c = REG(u32, 4);
	memcpy(a, REG(u32, 2), sizeof a);
	for (u32 l = 0; l < LANES; l++) {
		if (!(mask >> l & 1))
			continue;
		u32 by = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31, last = (l & segment) | (clamp & ~segment), from = l;
		bool in = true;
		switch (mode) {
		case UP: in = l >= by + last, from = l - by; break;
		case DOWN: in = (from = l + by) <= last; break;
		case BUTTERFLY: in = (from = l ^ by) <= last; break;
		case INDEX: in = (from = (l & segment) | (by & ~segment)) <= last; break;
		}
		from = in ? from : l;
		if (!(mask >> from & 1))
			report(w, i, (int)l, LANE_MASK, "it reads from lane %u, which does not take part", from);
		d[l] = a[from];
		found |= (u32)in << l;
	}
	if (i->operand[1])
		*REG(u32, 1) = (*REG(u32, 1) & ~mask) | found;
}
static void shuffle_up(Warp *w, const Ins *i, u32 mask) { shuffle(w, i, mask, UP); }
static void shuffle_down(Warp *w, const Ins *i, u32 mask) { shuffle(w, i, mask, DOWN); }
static void shuffle_butterfly(Warp *w, const Ins *i, u32 mask) { shuffle(w, i, mask, BUTTERFLY); }
static void shuffle_index(Warp *w, const Ins *i, u32 mask) { shuffle(w, i, mask, INDEX); }

static void to_predicate(Warp *w, const Ins *i, u32 mask, u32 value) { *REG(u32, 0) = (*REG(u32, 0) & ~mask) | (value & mask); }

static void vote_all(Warp *w, const Ins *i, u32 mask) {
	check_members(w, i, mask, 2);
	to_predicate(w, i, mask, (*REG(u32, 1) & mask) == mask ? ~0u : 0);
}
static void vote_any(Warp *w, const Ins *i, u32 mask) {
	check_members(w, i, mask, 2);
	to_predicate(w, i, mask, *REG(u32, 1) & mask ? ~0u : 0);
}
static void vote_uniform(Warp *w, const Ins *i, u32 mask) {
	check_members(w, i, mask, 2);
	u32 yes = *REG(u32, 1) & mask;
	to_predicate(w, i, mask, yes == mask || !yes ? ~0u : 0);
}
static void vote_ballot(Warp *w, const Ins *i, u32 mask) {
	check_members(w, i, mask, 2);
	u32 *d = REG(u32, 0), yes = *REG(u32, 1) & mask;
	LANE_LOOP(d[l] = yes);
}
static void active(Warp *w, const Ins *i, u32 mask) {
	u32 *d = REG(u32, 0);
	LANE_LOOP(d[l] = mask);
}
static void match_any(Warp *w, const Ins *i, u32 mask) {
	check_members(w, i, mask, 2);
	u32 *d = REG(u32, 0), a[LANES];
	memcpy(a, REG(u32, 1), sizeof a);
	LANE_LOOP(u32 r = 0; for (u32 o = 0; o < LANES; o++) if (mask >> o & 1 && a[o] == a[l]) r |= 1u << o; d[l] = r);
}

#define REDUCE(name, type, first, expression)                                                                                    \
	static void name(Warp *w, const Ins *i, u32 mask) {                                                                          \
		check_members(w, i, mask, 2);                                                                                                  \
		type *d = REG(type, 0), r = first;                                                                                       \
		const type *x = REG(type, 1);                                                                                            \
		for (u32 l = 0; l < LANES; l++)                                                                                          \
			if (mask >> l & 1) {                                                                                                 \
				type a = x[l];                                                                                                   \
				r = (type)(expression);                                                                                          \
			}                                                                                                                    \
		LANE_LOOP(d[l] = r);                                                                                                     \
	}
REDUCE(redux_add, u32, 0, r + a)
REDUCE(redux_min_u32, u32, UINT32_MAX, a < r ? a : r) REDUCE(redux_max_u32, u32, 0, a > r ? a : r)
REDUCE(redux_min_s32, s32, INT32_MAX, a < r ? a : r) REDUCE(redux_max_s32, s32, INT32_MIN, a > r ? a : r)
REDUCE(redux_and, u32, ~0u, r & a) REDUCE(redux_or, u32, 0, r | a) REDUCE(redux_xor, u32, 0, r ^ a)

// bar.warp.sync makes what the lanes did before visible among them.
static void warp_barrier(Warp *w, const Ins *i, u32 mask) {
	check_members(w, i, mask, 0);
	w->block->clock++;
	w->block->seen[w->id][w->id] = w->block->clock;
}

const Opcode warp_opcodes[] = {
	{"shfl.sync.up.b32", shuffle_up, "4|4444"}, {"shfl.sync.down.b32", shuffle_down, "4|4444"},
	{"shfl.sync.bfly.b32", shuffle_butterfly, "4|4444"}, {"shfl.sync.idx.b32", shuffle_index, "4|4444"},
	{"vote.sync.all.pred", vote_all, "pp4"}, {"vote.sync.any.pred", vote_any, "pp4"}, {"vote.sync.uni.pred", vote_uniform, "pp4"},
	{"vote.sync.ballot.b32", vote_ballot, "4p4"}, {"activemask.b32", active, "4"}, {"match.any.sync.b32", match_any, "444"},
	{"redux.sync.add.u32", redux_add, "444"}, {"redux.sync.add.s32", redux_add, "444"},
	{"redux.sync.min.u32", redux_min_u32, "444"}, {"redux.sync.max.u32", redux_max_u32, "444"},
	{"redux.sync.min.s32", redux_min_s32, "444"}, {"redux.sync.max.s32", redux_max_s32, "444"},
	{"redux.sync.and.b32", redux_and, "444"}, {"redux.sync.or.b32", redux_or, "444"}, {"redux.sync.xor.b32", redux_xor, "444"},
	{"bar.warp.sync", warp_barrier, "-4"},
	{0},
};
