// The memory of a block: shared by its threads, and local to each. A barrier must separate a read from another thread's write, and a
// write from another thread's read.
//
// The block's clock ticks at every barrier. An access has the time at which its warp did it; seen[v][w] is the time up to which warp v
// knows what warp w did, from barriers of both, or of a chain of other warps.
#include "machine.h"

#include <string.h>

enum { MANY = 255, ABSENT = 0, PRESENT = 1, UNDER_WAY = 2 };

static inline bool is_past(const Block *b, u32 reader, u32 writer, u32 time) { return time < b->start || b->seen[reader][writer] > time; }

// unordered_reader is a warp that read g and whose read w does not know to be done; -1: none.
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

// add_reader keeps earlier readers that w does not know to be done: a warp that knows w's read then knows all that are left out. Readers
// of different bytes are dropped, since the record cannot say which had which. alike: the reader before had as many bytes.
static inline void add_reader(Warp *w, Granule *g, int lane, u32 bytes, bool alike) {
	const Block *b = w->block;
	u32 old = g->read < b->start ? 0 : g->readers, known = 0;
	if (g->read != b->clock)
		for (u32 other = old; other; other &= other - 1)
			known |= is_past(b, w->id, (u32)__builtin_ctz(other), g->read) ? other & -other : 0;
	if (known == old)
		old = 0;
	bool mixed = old && g->bytes >> 4 != bytes;
	g->lane = old && (g->lane != lane || !alike) ? MANY : (u8)lane;
	g->readers = mixed ? 0 : old | 1u << w->id;
	g->bytes = (u8)((g->bytes & 15) | bytes << 4);
	g->read = b->clock;
}

// touch records the access of one lane to four bytes. Atomic accesses need no order.
static inline void touch(Warp *w, const Ins *i, Granule *g, int lane, u32 at, u32 bytes, How how) {
	Block *b = w->block;
	u16 me = (u16)(w->id * LANES + (u32)lane);
	if (g->writer != me && (g->bytes & bytes) && !i->strong && !is_past(b, w->id, g->writer / LANES, g->written))
		race(w, i, lane, at, how, true, g->writer);
	if (how == READ) {
		if (g->read != b->clock || g->readers != 1u << w->id || g->lane != lane || g->bytes >> 4 != bytes)
			add_reader(w, g, lane, bytes, true);
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

// is_quiet: w knows that all accesses to these bytes are done.
static bool is_quiet(const Warp *w, const Granule *g) {
	return (!(g->bytes & 15) || is_past(w->block, w->id, g->writer / LANES, g->written)) && unordered_reader(w, g, -1) < 0;
}

// folds: a line written as a whole gets a single record again, if no access is in the way.
__attribute__((noinline)) static bool folds(const Warp *w, Line *line, const Granule *words) {
	for (u32 p = 0; p < 4; p++)
		if (!is_quiet(w, &words[p]))
			return false;
	*line = (Line){0};
	return true;
}

// touch_line records an access to all 16 bytes by lanes from `lane` on with `each` bytes. If that needs a closer look, it records nothing
// and returns false.
static inline bool touch_line(Warp *w, const Ins *i, u32 n, int lane, u32 each, How how) {
	Block *b = w->block;
	Line *line = &b->lines[n];
	Granule *g = &line->whole;
	u16 me = (u16)(w->id * LANES + (u32)lane);
	if (i->strong || (line->fine_since == b->start && (how == READ || !folds(w, line, &b->words[4 * n]))))
		return false;
	bool mine = g->writer == me && line->written_each == each, alike = line->read_each == each;
	if (!mine && g->bytes & 15 && !is_past(b, w->id, g->writer / LANES, g->written))
		return false;
	if (how == READ) {
		if (g->read != b->clock || g->readers != 1u << w->id || g->lane != lane || !alike)
			add_reader(w, g, lane, 15, alike);
		line->read_each = (u8)each;
		return true;
	}
	if (g->bytes >> 4 && unordered_reader(w, g, alike ? lane : -1) >= 0)
		return false;
	g->bytes |= 15;
	g->writer = me;
	g->written = b->clock;
	line->written_each = (u8)each;
	return true;
}

// refine copies the record of a line to its words.
__attribute__((noinline)) static void refine(const Block *b, Line *line, Granule *words) {
	line->fine_since = b->start;
	for (u32 p = 0; p < 4; p++) {
		words[p] = line->whole;
		if (line->written_each)
			words[p].writer += (u16)(p * 4 / line->written_each);
		if (line->read_each && words[p].lane != MANY)
			words[p].lane += (u8)(p * 4 / line->read_each);
	}
}

// touch_lanes records the accesses of lanes to adjacent bytes, n each: by lines where these are read and written as a whole, by words
// otherwise.
__attribute__((noinline)) static void touch_lanes(Warp *w, const Ins *i, int lane, u32 lanes, u32 at, u32 n, How how) {
	Block *b = w->block;
	for (u32 done; lanes; lanes -= done, lane += (int)done, at += done * n) {
		Line *line = &b->lines[at / 16];
		done = n >= 4 && !(at & 15) ? 16 / n : LANES + 1;
		if (done <= lanes && touch_line(w, i, at / 16, lane, n, how))
			continue;
		done = 1;
		if (line->fine_since != b->start)
			refine(b, line, &b->words[at / 16 * 4]);
		for (u32 p = at & ~3u; p < at + n; p += 4)
			touch(w, i, &b->words[p / 4], lane, p, part(at, n), how);
	}
}

static inline void touch_lane(Warp *w, const Ins *i, int lane, u32 at, u32 n, How how) {
	const Block *b = w->block;
	if (n == 4 && b->lines[at / 16].fine_since == b->start)
		touch(w, i, &b->words[at / 4], lane, at, 15, how);
	else if (n != 16 || !touch_line(w, i, at / 16, lane, 16, how))
		touch_lanes(w, i, lane, 1, at, n, how);
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
	else
		copy_number(valid, &all, n);
}

// present reports whether a lane's 1, 2, 4, 8 or 16 bytes are there. With a loop, compilers would generate code for hundreds.
static inline bool present(const u8 *valid, u32 n) { return ones(valid, n < 8 ? n : 8) && (n < 16 || ones(valid + 8, 8)); }

__attribute__((noreturn, noinline)) static void missing(Warp *w, const Ins *i, int lane, u32 at, u32 n) {
	if (memchr(w->block->shared_valid + at, UNDER_WAY, n))
		find(w, i, lane, MISSING_WAIT, "it reads %u bytes at %u of shared memory that cp.async is still to bring; wait for the group "
			"(cp.async.wait_group) before the barrier", n, at);
	find(w, i, lane, UNINITIALISED, "it reads %u bytes at %u of shared memory that nothing has written", n, at);
}

// shared_at checks one lane's access and returns its host address.
u8 *shared_at(Warp *w, const Ins *i, int lane, u32 at, u32 n, How how) {
	Block *b = w->block;
	bounds(w, i, lane, at, n);
	u8 *valid = b->shared_valid + at;
	if (how != WRITE && !present(valid, n))
		missing(w, i, lane, at, n);
	touch_lane(w, i, lane, at, n, how == READ ? READ : WRITE);
	if (how != READ)
		mark(valid, PRESENT, n);
	return b->shared + at;
}

// shared_run does so for lanes with adjacent bytes, n each; NULL if one of them may not access its bytes.
u8 *shared_run(Warp *w, const Ins *i, u32 lane, u32 lanes, u32 at, u32 n, How how) {
	Block *b = w->block;
	u32 size = b->launch->shared_bytes, all = lanes * n;
	u8 *valid = b->shared_valid + at;
	if (at > size || all > size - at || at & (n - 1) || (how == READ && !all_ones(valid, all)))
		return NULL;
	touch_lanes(w, i, (int)lane, lanes, at, n, how);
	if (how != READ)
		memset(valid, PRESENT, all);
	return b->shared + at;
}

// shared_will_arrive marks the target of an asynchronous copy: nobody may read it until the wait.
void shared_will_arrive(Warp *w, const Ins *i, int lane, u32 at, u32 n) {
	bounds(w, i, lane, at, n);
	touch_lane(w, i, lane, at, n, WRITE);
	mark(w->block->shared_valid + at, UNDER_WAY, n);
	mark(w->block->shared + at, 0xff, n);
}

// local_at is for each thread's own memory: arrays that did not fit into registers.
u8 *local_at(Warp *w, const Ins *i, int lane, u32 at, u32 n, How how) {
	u32 size = w->block->launch->kernel->local_bytes;
	if (at > size || n > size - at)
		find(w, i, lane, OUT_OF_BOUNDS, "it touches %u bytes at %u of its local memory of %u", n, at, size);
	if (at & (n - 1))
		find(w, i, lane, MISALIGNED, "it touches %u bytes at %u of local memory, which is no multiple of %u", n, at, n);
	u32 place = (u32)lane * size + at;
	if (how != WRITE && !present(w->local_valid + place, n))
		find(w, i, lane, UNINITIALISED, "it reads %u bytes at %u of local memory that it never wrote", n, at);
	if (how != READ)
		memset(w->local_valid + place, PRESENT, n);
	return w->local + place;
}
