// Global memory: where allocations lie, which of their bytes were ever written, and who touched them last.
//
// Device addresses are not addresses of the host. Every allocation has 4 GB of them to itself and begins in the middle, so that
// an index that is wrong, or a stride, or a pointer that was freed, does not end in another allocation; addresses are given to
// somebody else only after all others were. Four bytes remember the last operation (launch or copy) that wrote them and the last
// that read them, and its block. From that follow races between blocks of a launch, and between streams.
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_BITS = 32, QUARTER = 30 };

Allocation *slots[SLOTS];
u32 settled_operation; // it and all before it are known to have ended, to the host and so to all that comes

static u32 next_slot = FIRST_SLOT, allocations;

static u64 slots_of(u64 size) { return ((size + (1ull << QUARTER)) >> SLOT_BITS) + 1; }

static void forget(Allocation *a) {
	for (u64 s = a->base >> SLOT_BITS, n = slots_of(a->size); n-- > 0; s++)
		slots[s] = NULL;
	free(a);
}

static bool vacant(u32 from, u64 n) {
	for (u64 s = from; s < from + n; s++)
		if (s >= SLOTS || (slots[s] && !slots[s]->freed))
			return false;
	return true;
}

// allocate finds memory on the host and addresses; NULL when there are none.
Allocation *allocate(u64 size, const char *what) {
	u64 n = slots_of(size);
	u32 tries = 0;
	for (; tries < SLOTS && !vacant(next_slot, n); tries++)
		next_slot = next_slot + 1 < SLOTS ? next_slot + 1 : FIRST_SLOT;
	Allocation *a = calloc(1, sizeof *a);
	u8 *bytes = malloc(size + 16), *valid = calloc(1, size + 16);
	AccessLine *lines = calloc(size / 16 + 1, sizeof *lines);
	if (!a || !bytes || !valid || !lines || tries == SLOTS) {
		free(a), free(bytes), free(valid), free(lines);
		return NULL;
	}
	for (u64 s = next_slot; s < next_slot + n; s++)
		if (slots[s])
			forget(slots[s]);
	*a = (Allocation){.base = ((u64)next_slot << SLOT_BITS) + (1ull << QUARTER), .size = size, .bytes = bytes, .valid = valid,
		.lines = lines, .number = ++allocations, .what = what};
	for (u64 s = next_slot; s < next_slot + n; s++)
		slots[s] = a;
	next_slot = next_slot + n < SLOTS ? next_slot + (u32)n : FIRST_SLOT;
	return a;
}

// release lets the memory go and keeps the addresses, so that a later use is recognised.
void release(Allocation *a) {
	a->freed = true;
	free(a->bytes), free(a->valid), free(a->lines);
	a->bytes = a->valid = NULL;
	a->lines = NULL;
}

Allocation *find_allocation(u64 address) { return address >> SLOT_BITS < SLOTS ? slots[address >> SLOT_BITS] : NULL; }

// say_where explains an address that may not be touched.
void say_where(u64 address, u32 n, char *into, size_t room, Kind *kind) {
	Allocation *a = find_allocation(address);
	unsigned long long p = address;
	*kind = OUT_OF_BOUNDS;
	if (!a) {
		snprintf(into, room, "%u bytes at 0x%llx, where nothing was ever allocated; is it a pointer of the host, or of another space?", n, p);
	} else if (a->freed) {
		*kind = USE_AFTER_FREE;
		snprintf(into, room, "%u bytes at offset %lld of %s %u (%llu bytes), which was freed", n, (long long)(address - a->base), a->what,
			a->number, (unsigned long long)a->size);
	} else if (address < a->base) {
		snprintf(into, room, "%u bytes that begin %llu before %s %u (%llu bytes); look at the index and its bound", n,
			(unsigned long long)(a->base - address), a->what, a->number, (unsigned long long)a->size);
	} else {
		snprintf(into, room, "%u bytes at offset %llu of %s %u, which has %llu; look at the index and its bound", n,
			(unsigned long long)(address - a->base), a->what, a->number, (unsigned long long)a->size);
	}
}

// A record packs who touched: operation (32 bits), block (20), bytes of the four (4), several blocks (1), mixed (1), atomic (1).
// Mixed are blocks with different bytes of the four: who had which is forgotten, and nothing is said about them.
enum { SEVERAL = 1, MIXED = 2, ATOMICALLY = 4 };
static inline u64 record(u32 operation, u32 block, u32 bytes, u32 flags) {
	return (u64)operation << 32 | (u64)(block & 0xfffff) << 12 | bytes << 4 | flags;
}
static inline u32 record_operation(u64 r) { return (u32)(r >> 32); }
static inline u32 record_block(u64 r) { return (u32)(r >> 12) & 0xfffff; }
static inline u32 record_bytes(u64 r) { return (u32)r >> 4 & 15; }

// joined is a record after one more access of the same operation.
static inline u64 joined(u64 old, u64 mine) {
	if (record_operation(old) != record_operation(mine))
		return mine;
	if (record_block(old) == record_block(mine))
		return (old | (mine & 0xf0)) & (mine | ~(u64)ATOMICALLY);
	u64 lower = record_block(old) < record_block(mine) ? old : mine;
	u64 flags = (old | mine) & (SEVERAL | MIXED), atomic = old & mine & ATOMICALLY;
	flags |= record_bytes(old) == record_bytes(mine) ? SEVERAL : MIXED;
	return (lower & ~(u64)0xf7) | (record_bytes(old) | record_bytes(mine)) << 4 | flags | atomic;
}

static inline u64 publish(_Atomic u64 *place, u64 mine) {
	u64 old = atomic_load_explicit(place, memory_order_relaxed), next;
	do {
		next = joined(old, mine);
	} while (next != old && !atomic_compare_exchange_weak(place, &old, next));
	return old;
}

typedef enum { NONE, BLOCKS, STREAMS } Conflict;

// conflict compares an access with a record that it may not overlap.
static inline Conflict conflict(u64 old, u64 mine) {
	u32 earlier = record_operation(old), now = record_operation(mine);
	if (earlier == now) {
		bool other = record_block(old) != record_block(mine) || old & SEVERAL;
		bool overlaps = record_bytes(old) & record_bytes(mine), atomic = old & mine & ATOMICALLY;
		return other && overlaps && !atomic && !(old & MIXED) ? BLOCKS : NONE;
	}
	return earlier > settled_operation && !operation_is_ordered(earlier, now) ? STREAMS : NONE;
}

// touch puts an access on record before it looks at the others': of two at the same time, at least one sees the other.
static inline Conflict touch(Access *a, u64 mine, How how, u64 *against) {
	if (how == READ) {
		publish(&a->read, mine);
		return conflict(*against = atomic_load(&a->wrote), mine);
	}
	Conflict c = conflict(*against = publish(&a->wrote, mine), mine);
	return c ? c : conflict(*against = atomic_load(&a->read), mine);
}

// check looks at a record without leaving one.
static inline Conflict check(Access *a, u64 mine, How how, u64 *against) {
	Conflict c = conflict(*against = atomic_load(&a->wrote), mine);
	return c || how == READ ? c : conflict(*against = atomic_load(&a->read), mine);
}

// touch_line: an access to all 16 bytes leaves its record with the line and looks at its words, one to some of its words leaves
// theirs and looks at the line. So vectors cost one record, and each side sees the other.
static inline Conflict touch_line(AccessLine *line, u32 from, u32 to, u64 who, How how, u64 *against) {
	Conflict c = NONE;
	if (to - from == 16) {
		u64 mine = who | 15 << 4;
		c = touch(&line->whole, mine, how, against);
		for (u32 word = 0; !c && word < 4; word++)
			c = check(&line->part[word], mine, how, against);
		return c;
	}
	for (u32 word = from / 4; !c && word * 4 < to; word++) {
		u32 first = from > word * 4 ? from % 4 : 0, end = to < word * 4 + 4 ? to % 4 : 4;
		u64 mine = who | (u64)(((1u << end) - 1) & ~((1u << first) - 1)) << 4;
		c = touch(&line->part[word], mine, how, against);
		if (!c)
			c = check(&line->whole, mine, how, against);
	}
	return c;
}

// touch_bytes does so for all lines of a range; at is where something was found.
static inline Conflict touch_bytes(Allocation *a, u64 offset, u64 n, u64 who, How how, u64 *against, u64 *at) {
	for (u64 from = offset, end = offset + n, to; from < end; from = to) {
		to = (from / 16 + 1) * 16 < end ? (from / 16 + 1) * 16 : end;
		u64 line = from / 16;
		Conflict c = touch_line(&a->lines[line], (u32)(from - line * 16), (u32)(to - line * 16), who, how, against);
		*at = from;
		if (c)
			return c;
	}
	return NONE;
}

__attribute__((noreturn, noinline)) static void conflicts(Warp *w, const Ins *i, int lane, Allocation *a, u64 offset, How how, Conflict c,
	u64 against) {
	const char *verb = how == READ ? "reads" : how == WRITE ? "writes" : "updates";
	char who[200];
	if (c == BLOCKS)
		find(w, i, lane, BLOCK_RACE, "it %s bytes at offset %llu of %s %u that block %u touched in the same launch; the order of blocks "
			"is not given: split the launch in two, or the work otherwise", verb, (unsigned long long)offset, a->what, a->number,
			record_block(against));
	describe_operations(record_operation(against), w->block->launch->operation, who, sizeof who);
	find(w, i, lane, STREAM_RACE, "it %s bytes at offset %llu of %s %u, and %s", verb, (unsigned long long)offset, a->what, a->number, who);
}

static inline bool all_valid(const u8 *v, u32 n) {
	const u64 all = 0x0101010101010101;
	u64 x = all;
	for (; n > 8; n -= 8, v += 8)
		if (memcmp(v, &all, 8))
			return false;
	memcpy(&x, v, n);
	return x == all;
}

__attribute__((noreturn, noinline)) static void forbidden(Warp *w, const Ins *i, int lane, u64 address, u32 n, How how) {
	char where[300];
	Kind kind;
	say_where(address, n, where, sizeof where, &kind);
	find(w, i, lane, kind, "it %s %s", how == READ ? "reads" : "writes", where);
}

static inline bool within(const Allocation *a, u64 address, u32 n) {
	return address >= a->base && address - a->base <= a->size && n <= a->size - (address - a->base);
}

// global_at checks one lane's access of n bytes and gives their place on the host.
u8 *global_at(Warp *w, const Ins *i, int lane, u64 address, u32 n, How how) {
	Block *b = w->block;
	Allocation *a = b->last;
	if (!a || !within(a, address, n)) {
		a = find_allocation(address);
		if (!a || a->freed || !within(a, address, n))
			forbidden(w, i, lane, address, n, how);
		b->last = a;
	}
	if (address & (n - 1))
		find(w, i, lane, MISALIGNED, "it touches %u bytes at 0x%llx, which is no multiple of %u", n, (unsigned long long)address, n);
	u64 offset = address - a->base, against, where;
	if (how != WRITE && !all_valid(a->valid + offset, n))
		find(w, i, lane, UNINITIALISED, "it reads %u bytes at offset %llu of %s %u that nothing has written", n,
			(unsigned long long)offset, a->what, a->number);
	if (how != READ)
		memset(a->valid + offset, 1, n);
	u64 who = record(b->launch->operation, (u32)b->number, 0, i->strong ? ATOMICALLY : 0);
	Conflict c = touch_bytes(a, offset, n, who, how, &against, &where);
	if (c)
		conflicts(w, i, lane, a, where, how, c, against);
	return a->bytes + offset;
}

// touch_range puts a copy on record; false, and why, where another stream may still be at work on these bytes.
bool touch_range(Allocation *a, u64 offset, u64 n, How how, u32 operation, char *why, size_t room) {
	u64 against, at;
	if (touch_bytes(a, offset, n, record(operation, 0, 0, 0), how, &against, &at) != STREAMS)
		return true;
	char who[200];
	describe_operations(record_operation(against), operation, who, sizeof who);
	snprintf(why, room, "it %s bytes at offset %llu of %s %u, and %s", how == READ ? "reads" : "writes", (unsigned long long)at, a->what,
		a->number, who);
	return false;
}
