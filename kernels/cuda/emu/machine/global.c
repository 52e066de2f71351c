// Global memory: the addresses of allocations, which of their bytes were ever written, and who touched them last.
//
// Device addresses are not host addresses. Every allocation has 4 GB of them and begins in the middle, so that a wrong index or stride,
// or a freed pointer, does not hit another allocation; addresses are reused only after all others have been used.
#include "global.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_BITS = 32, QUARTER = 30 };

Allocation *slots[SLOTS];
u32 completed_operation; // the host has waited for it and all earlier ones, so they precede every later operation
u32 one_stream_since;    // this operation and all later ones are of one stream

static u32 next_slot = FIRST_SLOT, allocations;

static u64 slots_of(u64 size) { return ((size + (1ull << QUARTER)) >> SLOT_BITS) + 1; }

static void free_slots(Allocation *a) {
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

// allocate reserves host memory and device addresses; NULL if there are none left.
Allocation *allocate(u64 size, const char *what) {
	u64 n = slots_of(size);
	u32 tries = 0;
	for (; tries < SLOTS && !vacant(next_slot, n); tries++)
		next_slot = next_slot + 1 < SLOTS ? next_slot + 1 : FIRST_SLOT;
	Allocation *a = calloc(1, sizeof *a);
	u8 *bytes = malloc(size + 16), *valid = calloc(1, size + 16);
	AccessRecord *lines = calloc(size / 16 + 1, sizeof *lines), *words = calloc(size / 4 + 4, sizeof *words);
	if (!a || !bytes || !valid || !lines || !words || tries == SLOTS) {
		free(a), free(bytes), free(valid), free(lines), free(words);
		return NULL;
	}
	for (u64 s = next_slot; s < next_slot + n; s++)
		if (slots[s])
			free_slots(slots[s]);
	*a = (Allocation){.base = ((u64)next_slot << SLOT_BITS) + (1ull << QUARTER), .size = size, .bytes = bytes, .valid = valid,
		.lines = lines, .words = words, .number = ++allocations, .what = what};
	for (u64 s = next_slot; s < next_slot + n; s++)
		slots[s] = a;
	next_slot = next_slot + n < SLOTS ? next_slot + (u32)n : FIRST_SLOT;
	return a;
}

// release frees the memory and keeps the addresses, so that a later use is recognised.
void release(Allocation *a) {
	a->freed = true;
	free(a->bytes), free(a->valid), free(a->lines), free(a->words);
	a->bytes = a->valid = NULL;
	a->lines = a->words = NULL;
}

Allocation *find_allocation(u64 address) { return address >> SLOT_BITS < SLOTS ? slots[address >> SLOT_BITS] : NULL; }

// describe_bad_address explains why an address may not be touched.
void describe_bad_address(u64 address, u32 n, char *text, size_t size, Kind *kind) {
	Allocation *a = find_allocation(address);
	unsigned long long p = address;
	*kind = OUT_OF_BOUNDS;
	if (!a) {
		snprintf(text, size, "%u bytes at 0x%llx, where nothing was ever allocated; is it a pointer of the host, or of another space?", n, p);
	} else if (a->freed) {
		*kind = USE_AFTER_FREE;
		snprintf(text, size, "%u bytes at offset %lld of %s %u (%llu bytes), which was freed", n, (long long)(address - a->base), a->what,
			a->number, (unsigned long long)a->size);
	} else if (address < a->base) {
		snprintf(text, size, "%u bytes that begin %llu before %s %u (%llu bytes); look at the index and its bound", n,
			(unsigned long long)(a->base - address), a->what, a->number, (unsigned long long)a->size);
	} else {
		snprintf(text, size, "%u bytes at offset %llu of %s %u, which has %llu; look at the index and its bound", n,
			(unsigned long long)(address - a->base), a->what, a->number, (unsigned long long)a->size);
	}
}

static inline bool within(const Allocation *a, u64 address, u32 n) {
	return address >= a->base && address - a->base <= a->size && n <= a->size - (address - a->base);
}

__attribute__((noreturn, noinline)) static void report_conflict(Warp *w, const Ins *i, int lane, Allocation *a, u64 offset,
	AccessMode mode, Conflict c, u64 against) {
	const char *verb = mode == READ ? "reads" : mode == WRITE ? "writes" : "updates";
	char who[200];
	if (c == BLOCKS)
		report(w, i, lane, BLOCK_RACE, "it %s bytes at offset %llu of %s %u that block %u touched in the same launch; the order of blocks "
			"is not given: split the launch in two, or the work otherwise", verb, (unsigned long long)offset, a->what, a->number,
			record_block(against));
	describe_operations(record_operation(against), w->block->launch->operation, who, sizeof who);
	report(w, i, lane, STREAM_RACE, "it %s bytes at offset %llu of %s %u, and %s", verb, (unsigned long long)offset, a->what, a->number, who);
}

__attribute__((noreturn, noinline)) static void report_forbidden(Warp *w, const Ins *i, int lane, u64 address, u32 n, AccessMode mode) {
	char where[300];
	Kind kind;
	Allocation *a = find_allocation(address);
	if (a && !a->freed && within(a, address, n)) {
		if (address & (n - 1))
			report(w, i, lane, MISALIGNED, "it touches %u bytes at 0x%llx, which is no multiple of %u", n, (unsigned long long)address, n);
		report(w, i, lane, UNINITIALISED, "it reads %u bytes at offset %llu of %s %u that nothing has written", n,
			(unsigned long long)(address - a->base), a->what, a->number);
	}
	describe_bad_address(address, n, where, sizeof where, &kind);
	report(w, i, lane, kind, "it %s %s", mode == READ ? "reads" : "writes", where);
}

// global_lanes checks the access of lanes whose bytes, n each, are adjacent, and returns their host address; NULL if one of the lanes may
// not access its bytes.
u8 *global_lanes(Warp *w, const Ins *i, u32 lane, u32 lanes, u64 address, u32 n, AccessMode mode) {
	Block *b = w->block;
	Allocation *a = b->last;
	u32 all = lanes * n;
	if (!a || !within(a, address, all)) {
		a = find_allocation(address);
		if (!a || a->freed || !within(a, address, all))
			return NULL;
		b->last = a;
	}
	u64 offset = address - a->base, against, where;
	if (address & (n - 1) || (mode != WRITE && !all_ones(a->valid + offset, all)))
		return NULL;
	if (mode != READ)
		memset(a->valid + offset, 1, all);
	u64 who = record(b->launch->operation, (u32)b->number, 0, i->strong ? ATOMICALLY : 0);
	Conflict c = touch_bytes(a, offset, all, who, mode, &against, &where);
	if (c) {
		u32 before = (u32)(where - offset) / n;
		report_conflict(w, i, (int)(lane + before), a, offset + before * n, mode, c, against);
	}
	return a->bytes + offset;
}

// global_lane does so for one lane.
u8 *global_lane(Warp *w, const Ins *i, int lane, u64 address, u32 n, AccessMode mode) {
	u8 *p = global_lanes(w, i, (u32)lane, 1, address, n, mode);
	if (!p)
		report_forbidden(w, i, lane, address, n, mode);
	return p;
}

// touch_range records the access of a copy. It returns false, and the reason, if another stream may still be using these bytes.
bool touch_range(Allocation *a, u64 offset, u64 n, AccessMode mode, u32 operation, char *why, size_t size) {
	u64 against, at;
	if (touch_bytes(a, offset, n, record(operation, 0, 0, 0), mode, &against, &at) != STREAMS)
		return true;
	char who[200];
	describe_operations(record_operation(against), operation, who, sizeof who);
	snprintf(why, size, "it %s bytes at offset %llu of %s %u, and %s", mode == READ ? "reads" : "writes", (unsigned long long)at, a->what,
		a->number, who);
	return false;
}
