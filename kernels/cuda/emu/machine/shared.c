// The memory of a block: shared by its threads, and local to each. A barrier must separate a read from another thread's write, and a
// write from another thread's read.
//
// Races are found by vector clocks. The block's clock ticks at every barrier, and an access is recorded with the time. seen[v] is the
// vector clock of warp v: accesses of warp w before the time seen[v][w] happened before what v does now, because barriers order them,
// directly or through other warps.
#include "machine.h"

#include <string.h>

enum { MANY = 255, ABSENT = 0, PRESENT = 1, IN_FLIGHT = 2 };

static inline bool is_past(const Block *b, u32 reader, u32 writer, u32 time) { return time < b->start || b->seen[reader][writer] > time; }

// unordered_reader is a warp that has read g without a barrier between that and w's access; -1: none.
static int unordered_reader(const Warp *w, const SharedRecord *g, int lane) {
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

__attribute__((noreturn, noinline)) static void report_race(Warp *w, const Ins *i, int lane, u32 at, AccessMode mode, bool wrote,
	u32 other) {
	report(w, i, lane, SHARED_RACE, "it %s byte %u of shared memory that %s %u %s, and no barrier is between; put one there",
		mode == READ ? "reads" : "writes", at, wrote ? "thread" : "a thread of warp", other, wrote ? "wrote" : "read");
}

// add_reader keeps the earlier readers that no barrier orders before w. The others can be dropped: what is ordered after w's read is
// ordered after theirs, too. Readers of different bytes are dropped, since a record cannot say who read which. alike: the previous
// access read as many bytes per lane.
static inline void add_reader(Warp *w, SharedRecord *g, int lane, u32 bytes, bool alike) {
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
static inline void touch(Warp *w, const Ins *i, SharedRecord *g, int lane, u32 at, u32 bytes, AccessMode mode) {
	Block *b = w->block;
	u16 me = (u16)(w->id * LANES + (u32)lane);
	if (g->writer != me && (g->bytes & bytes) && !i->strong && !is_past(b, w->id, g->writer / LANES, g->written))
		report_race(w, i, lane, at, mode, true, g->writer);
	if (mode == READ) {
		if (g->read != b->clock || g->readers != 1u << w->id || g->lane != lane || g->bytes >> 4 != bytes)
			add_reader(w, g, lane, bytes, true);
		return;
	}
	int reader = g->bytes >> 4 & bytes && !i->strong ? unordered_reader(w, g, lane) : -1;
	if (reader >= 0)
		report_race(w, i, lane, at, mode, false, (u32)reader);
	bool again = g->writer == me && g->written == b->clock;
	g->bytes = (u8)((g->bytes & 0xf0) | (again ? g->bytes & 15 : 0) | bytes);
	g->writer = me;
	g->written = b->clock;
}

static inline u32 byte_mask(u32 at, u32 n) { return n >= 4 ? 15 : ((1u << n) - 1) << (at & 3); }

// is_settled reports whether all accesses to these bytes happened before what w does now.
static bool is_settled(const Warp *w, const SharedRecord *g) {
	return (!(g->bytes & 15) || is_past(w->block, w->id, g->writer / LANES, g->written)) && unordered_reader(w, g, -1) < 0;
}

// merge_words gives a line that is written as a whole a single record again, unless an earlier access may still race with the write.
__attribute__((noinline)) static bool merge_words(const Warp *w, Line *line, const SharedRecord *words) {
	for (u32 p = 0; p < 4; p++)
		if (!is_settled(w, &words[p]))
			return false;
	*line = (Line){0};
	return true;
}

// touch_line records an access to all 16 bytes by lanes from `lane` on, lane_bytes each. If the line's record does not suffice to rule out
// a race, it records nothing and returns false.
static inline bool touch_line(Warp *w, const Ins *i, u32 n, int lane, u32 lane_bytes, AccessMode mode) {
	Block *b = w->block;
	Line *line = &b->lines[n];
	SharedRecord *g = &line->whole;
	u16 me = (u16)(w->id * LANES + (u32)lane);
	if (i->strong || (line->split_since == b->start && (mode == READ || !merge_words(w, line, &b->words[4 * n]))))
		return false;
	bool mine = g->writer == me && line->bytes_per_writer == lane_bytes, alike = line->bytes_per_reader == lane_bytes;
	if (!mine && g->bytes & 15 && !is_past(b, w->id, g->writer / LANES, g->written))
		return false;
	if (mode == READ) {
		if (g->read != b->clock || g->readers != 1u << w->id || g->lane != lane || !alike)
			add_reader(w, g, lane, 15, alike);
		line->bytes_per_reader = (u8)lane_bytes;
		return true;
	}
	if (g->bytes >> 4 && unordered_reader(w, g, alike ? lane : -1) >= 0)
		return false;
	g->bytes |= 15;
	g->writer = me;
	g->written = b->clock;
	line->bytes_per_writer = (u8)lane_bytes;
	return true;
}

// split_line gives each word of a line a record of its own, copied from the line's.
__attribute__((noinline)) static void split_line(const Block *b, Line *line, SharedRecord *words) {
	line->split_since = b->start;
	for (u32 p = 0; p < 4; p++) {
		words[p] = line->whole;
		if (line->bytes_per_writer)
			words[p].writer += (u16)(p * 4 / line->bytes_per_writer);
		if (line->bytes_per_reader && words[p].lane != MANY)
			words[p].lane += (u8)(p * 4 / line->bytes_per_reader);
	}
}

// touch_lanes records the accesses of lanes to adjacent bytes, n each: by lines where these are read and written as a whole, by words
// otherwise.
__attribute__((noinline)) static void touch_lanes(Warp *w, const Ins *i, int lane, u32 lanes, u32 at, u32 n, AccessMode mode) {
	Block *b = w->block;
	for (u32 done; lanes; lanes -= done, lane += (int)done, at += done * n) {
		Line *line = &b->lines[at / 16];
		done = n >= 4 && !(at & 15) ? 16 / n : LANES + 1;
		if (done <= lanes && touch_line(w, i, at / 16, lane, n, mode))
			continue;
		done = 1;
		if (line->split_since != b->start)
			split_line(b, line, &b->words[at / 16 * 4]);
		for (u32 p = at & ~3u; p < at + n; p += 4)
			touch(w, i, &b->words[p / 4], lane, p, byte_mask(at, n), mode);
	}
}

static inline void touch_lane(Warp *w, const Ins *i, int lane, u32 at, u32 n, AccessMode mode) {
	const Block *b = w->block;
	if (n == 4 && b->lines[at / 16].split_since == b->start)
		touch(w, i, &b->words[at / 4], lane, at, 15, mode);
	else if (n != 16 || !touch_line(w, i, at / 16, lane, 16, mode))
		touch_lanes(w, i, lane, 1, at, n, mode);
}

__attribute__((noreturn, noinline)) static void report_bounds(Warp *w, const Ins *i, int lane, u32 at, u32 n) {
	u32 size = w->block->launch->shared_bytes;
	if (at > size || n > size - at)
		report(w, i, lane, OUT_OF_BOUNDS, "it touches %u bytes at %u of shared memory, of which the block has %u; look at the index, and at "
			"the size that the launch gives", n, at, size);
	report(w, i, lane, MISALIGNED, "it touches %u bytes at %u of shared memory, which is no multiple of %u", n, at, n);
}

static inline void check_bounds(Warp *w, const Ins *i, int lane, u32 at, u32 n) {
	u32 size = w->block->launch->shared_bytes;
	if (at > size || n > size - at || at & (n - 1))
		report_bounds(w, i, lane, at, n);
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

__attribute__((noreturn, noinline)) static void report_missing(Warp *w, const Ins *i, int lane, u32 at, u32 n) {
	if (memchr(w->block->shared_valid + at, IN_FLIGHT, n))
		report(w, i, lane, MISSING_WAIT, "it reads %u bytes at %u of shared memory that cp.async is still to bring; wait for the group "
			"(cp.async.wait_group) before the barrier", n, at);
	report(w, i, lane, UNINITIALISED, "it reads %u bytes at %u of shared memory that nothing has written", n, at);
}

// shared_lane checks one lane's access and returns its host address.
u8 *shared_lane(Warp *w, const Ins *i, int lane, u32 at, u32 n, AccessMode mode) {
	Block *b = w->block;
	check_bounds(w, i, lane, at, n);
	u8 *valid = b->shared_valid + at;
	if (mode != WRITE && !present(valid, n))
		report_missing(w, i, lane, at, n);
	touch_lane(w, i, lane, at, n, mode == READ ? READ : WRITE);
	if (mode != READ)
		mark(valid, PRESENT, n);
	return b->shared + at;
}

// shared_lanes does so for lanes with adjacent bytes, n each; NULL if one of them may not access its bytes.
u8 *shared_lanes(Warp *w, const Ins *i, u32 lane, u32 lanes, u32 at, u32 n, AccessMode mode) {
	Block *b = w->block;
	u32 size = b->launch->shared_bytes, all = lanes * n;
	u8 *valid = b->shared_valid + at;
	if (at > size || all > size - at || at & (n - 1) || (mode == READ && !all_ones(valid, all)))
		return NULL;
	touch_lanes(w, i, (int)lane, lanes, at, n, mode);
	if (mode != READ)
		memset(valid, PRESENT, all);
	return b->shared + at;
}

// shared_in_flight marks the target of an asynchronous copy: nobody may read it until the wait.
void shared_in_flight(Warp *w, const Ins *i, int lane, u32 at, u32 n) {
	check_bounds(w, i, lane, at, n);
	touch_lane(w, i, lane, at, n, WRITE);
	mark(w->block->shared_valid + at, IN_FLIGHT, n);
	mark(w->block->shared + at, 0xff, n);
}

// local_lane is for each thread's own memory: arrays that did not fit into registers.
u8 *local_lane(Warp *w, const Ins *i, int lane, u32 at, u32 n, AccessMode mode) {
	u32 size = w->block->launch->kernel->local_bytes;
	if (at > size || n > size - at)
		report(w, i, lane, OUT_OF_BOUNDS, "it touches %u bytes at %u of its local memory of %u", n, at, size);
	if (at & (n - 1))
		report(w, i, lane, MISALIGNED, "it touches %u bytes at %u of local memory, which is no multiple of %u", n, at, n);
	u32 place = (u32)lane * size + at;
	if (mode != WRITE && !present(w->local_valid + place, n))
		report(w, i, lane, UNINITIALISED, "it reads %u bytes at %u of local memory that it never wrote", n, at);
	if (mode != READ)
		memset(w->local_valid + place, PRESENT, n);
	return w->local + place;
}
