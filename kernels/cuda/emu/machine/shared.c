// A block's own memory: shared by its threads, and local to each. Who reads what another thread wrote must have met it at a
// barrier in between, and the other way round.
//
// The block's clock ticks at every barrier. An access has the time at which its warp did it; seen[v][w] is the time up to which
// warp v knows what warp w did, from barriers that both came to, or from others that had.
#include "machine.h"

#include <string.h>

enum { MANY = 255, ABSENT = 0, PRESENT = 1, UNDER_WAY = 2 };

static inline bool is_past(const Block *b, u32 reader, u32 writer, u32 time) { return time < b->start || b->seen[reader][writer] > time; }

// unordered is the warp of a reader of g that w does not know to be done; -1: none.
static int unordered_reader(const Warp *w, const Granule *g, int lane) {
	const Block *b = w->block;
	if (g->read < b->start || !g->readers)
		return -1;
	for (u32 other = g->readers; other; other &= other - 1) {
		u32 v = (u32)__builtin_ctz(other);
		bool self = v == w->id && g->lane == lane && !(g->readers & (g->readers - 1));
		if (!self && !is_past(b, w->id, v, g->read))
			return (int)v;
	}
	return -1;
}

__attribute__((noreturn, noinline)) static void race(Warp *w, const Ins *i, int lane, u32 at, How how, bool wrote, u32 other) {
	find(w, i, lane, SHARED_RACE, "it %s byte %u of shared memory that %s %u %s, and no barrier is between; put one there",
		how == READ ? "reads" : "writes", at, wrote ? "thread" : "a thread of warp", other, wrote ? "wrote" : "read");
}

// add_reader keeps earlier readers that w does not know to be done. Who knows w's read then knows all that it left out. Readers
// of different bytes are forgotten: which of them had which is not kept.
static inline void add_reader(Warp *w, Granule *g, int lane, u32 bytes) {
	const Block *b = w->block;
	u32 old = g->read < b->start ? 0 : g->readers, known = 0;
	if (g->read != b->clock)
		for (u32 other = old; other; other &= other - 1)
			known |= is_past(b, w->id, (u32)__builtin_ctz(other), g->read) ? other & -other : 0;
	if (known == old)
		old = 0;
	bool mixed = old && g->bytes >> 4 != bytes;
	g->lane = old && g->lane != lane ? MANY : (u8)lane;
	g->readers = mixed ? 0 : old | 1u << w->id;
	g->bytes = (u8)((g->bytes & 15) | bytes << 4);
	g->read = b->clock;
}

// touch puts the access of one lane to four bytes on record. Atomic accesses order themselves.
static inline void touch(Warp *w, const Ins *i, Granule *g, int lane, u32 at, u32 bytes, How how) {
	Block *b = w->block;
	u16 me = (u16)(w->id * LANES + (u32)lane);
	if (g->writer != me && (g->bytes & bytes) && !i->strong && !is_past(b, w->id, g->writer / LANES, g->written))
		race(w, i, lane, at, how, true, g->writer);
	if (how == READ) {
		if (g->read != b->clock || g->readers != 1u << w->id || g->lane != lane || g->bytes >> 4 != bytes)
			add_reader(w, g, lane, bytes);
		return;
	}
	int reader = g->bytes >> 4 & bytes && !i->strong ? unordered_reader(w, g, lane) : -1;
	if (reader >= 0)
		race(w, i, lane, at, how, false, (u32)reader);
	bool again = g->writer == me && g->written == b->clock;
	g->bytes = (u8)((g->bytes & 0xf0) | (again ? g->bytes & 15 : 0) | bytes);
	g->writer = me;
	g->written = b->clock;
}

static inline u32 part(u32 at, u32 n) { return n >= 4 ? 15 : ((1u << n) - 1) << (at & 3); }

// touch_all keeps one record for 16 bytes as long as they are read and written as a whole in this block, then one for every four.
static inline void touch_all(Warp *w, const Ins *i, int lane, u32 at, u32 n, How how) {
	Block *b = w->block;
	Line *line = &b->lines[at / 16];
	if (n == 16 && line->fine_since != b->start) {
		touch(w, i, &line->whole, lane, at, 15, how);
		return;
	}
	if (line->fine_since != b->start) {
		line->fine_since = b->start;
		for (u32 p = 0; p < 4; p++)
			line->part[p] = line->whole;
	}
	for (u32 p = at & ~3u; p < at + n; p += 4)
		touch(w, i, &line->part[p / 4 % 4], lane, p, part(at, n), how);
}

__attribute__((noreturn, noinline)) static void outside(Warp *w, const Ins *i, int lane, u32 at, u32 n) {
	u32 size = w->block->launch->shared_bytes;
	if (at > size || n > size - at)
		find(w, i, lane, OUT_OF_BOUNDS, "it touches %u bytes at %u of shared memory, of which the block has %u; look at the index, and at "
			"the size that the launch gives", n, at, size);
	find(w, i, lane, MISALIGNED, "it touches %u bytes at %u of shared memory, which is no multiple of %u", n, at, n);
}

static inline void bounds(Warp *w, const Ins *i, int lane, u32 at, u32 n) {
	u32 size = w->block->launch->shared_bytes;
	if (at > size || n > size - at || at & (n - 1))
		outside(w, i, lane, at, n);
}

static inline void mark(u8 *valid, u8 as, u32 n) {
	u64 all = as * 0x0101010101010101ull;
	if (n == 16)
		memcpy(valid, &all, 8), memcpy(valid + 8, &all, 8);
	else if (n == 4)
		memcpy(valid, &all, 4);
	else
		memset(valid, as, n);
}

static bool present(const u8 *valid, u32 n, u8 *worst) {
	u8 seen = 0;
	bool absent = false;
	for (u32 b = 0; b < n; b++)
		seen |= valid[b], absent |= valid[b] == ABSENT;
	*worst = seen & UNDER_WAY ? UNDER_WAY : ABSENT;
	return !absent && seen == PRESENT;
}

static inline bool all_present(const u8 *valid, u32 n) {
	const u64 all = 0x0101010101010101;
	if (n == 16)
		return !memcmp(valid, &all, 8) && !memcmp(valid + 8, &all, 8);
	return n == 4 && !memcmp(valid, &all, 4);
}

// shared_at checks one lane's access and gives its place on the host.
u8 *shared_at(Warp *w, const Ins *i, int lane, u32 at, u32 n, How how) {
	Block *b = w->block;
	bounds(w, i, lane, at, n);
	u8 *valid = b->shared_valid + at, worst;
	if (how != WRITE && !all_present(valid, n) && !present(valid, n, &worst)) {
		if (worst == UNDER_WAY)
			find(w, i, lane, MISSING_WAIT, "it reads %u bytes at %u of shared memory that cp.async is still to bring; wait for the group "
				"(cp.async.wait_group) before the barrier", n, at);
		find(w, i, lane, UNINITIALISED, "it reads %u bytes at %u of shared memory that nothing has written", n, at);
	}
	touch_all(w, i, lane, at, n, how == READ ? READ : WRITE);
	if (how != READ)
		mark(valid, PRESENT, n);
	return b->shared + at;
}

// shared_will_arrive marks the place of an asynchronous copy: until the wait, nobody may read there.
void shared_will_arrive(Warp *w, const Ins *i, int lane, u32 at, u32 n) {
	bounds(w, i, lane, at, n);
	touch_all(w, i, lane, at, n, WRITE);
	mark(w->block->shared_valid + at, UNDER_WAY, n);
	mark(w->block->shared + at, 0xff, n);
}

// local_at: each thread's own memory, for arrays that found no registers.
u8 *local_at(Warp *w, const Ins *i, int lane, u32 at, u32 n, How how) {
	u32 size = w->block->launch->kernel->local_bytes;
	if (at > size || n > size - at)
		find(w, i, lane, OUT_OF_BOUNDS, "it touches %u bytes at %u of its local memory of %u", n, at, size);
	if (at & (n - 1))
		find(w, i, lane, MISALIGNED, "it touches %u bytes at %u of local memory, which is no multiple of %u", n, at, n);
	u32 place = (u32)lane * size + at;
	u8 worst;
	if (how != WRITE && !present(w->local_valid + place, n, &worst))
		find(w, i, lane, UNINITIALISED, "it reads %u bytes at %u of local memory that it never wrote", n, at);
	if (how != READ)
		memset(w->local_valid + place, PRESENT, n);
	return w->local + place;
}

// any_at resolves a generic address.
u8 *any_at(Warp *w, const Ins *i, int lane, u64 address, u32 n, How how) {
	switch (address >> 32) {
	case SHARED_WINDOW: return shared_at(w, i, lane, (u32)address, n, how);
	case LOCAL_WINDOW: return local_at(w, i, lane, (u32)address, n, how);
	default: return global_at(w, i, lane, address, n, how);
	}
}
