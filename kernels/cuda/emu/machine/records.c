// Records of accesses to global memory: one for every 16 bytes, and one for every word of lines that were touched in parts.
//
// A record has the last operation (launch or copy) that wrote the bytes and the last that read them, with its block. An access that
// conflicts with it is a race between blocks of a launch, or between streams.
#include "global.h"

// merged is a record after another access by the same operation.
static inline u64 merged(u64 old, u64 mine) {
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
		next = merged(old, mine) | (old & FINE);
	} while (next != old && !atomic_compare_exchange_weak(place, &old, next));
	return old;
}

// conflict compares an access with the record of one that it may not overlap.
static inline Conflict conflict(u64 old, u64 mine) {
	u32 earlier = record_operation(old), now = record_operation(mine);
	if (earlier == now) {
		bool other = record_block(old) != record_block(mine) || old & SEVERAL;
		bool overlaps = record_bytes(old) & record_bytes(mine), atomic = old & mine & ATOMICALLY;
		return other && overlaps && !atomic && !(old & MIXED) ? BLOCKS : NONE;
	}
	return earlier > completed_operation && earlier < one_stream_since && !operation_is_ordered(earlier, now) ? STREAMS : NONE;
}

// touch records an access before it reads the records of others: of two concurrent accesses, at least one sees the other.
static inline Conflict touch(AccessRecord *a, u64 mine, AccessMode mode, u64 *against) {
	if (mode == READ) {
		publish(&a->read, mine);
		return conflict(*against = atomic_load(&a->wrote), mine);
	}
	Conflict c = conflict(*against = publish(&a->wrote, mine), mine);
	return c ? c : conflict(*against = atomic_load(&a->read), mine);
}

// check compares with a record without leaving one.
static inline Conflict check(AccessRecord *a, u64 mine, AccessMode mode, u64 *against) {
	Conflict c = conflict(*against = atomic_load(&a->wrote), mine);
	return c || mode == READ ? c : conflict(*against = atomic_load(&a->read), mine);
}

// touch_whole records an access to all 16 bytes in the line, and checks the words if they have records.
static inline Conflict touch_whole(Allocation *a, u64 line, u64 who, AccessMode mode, u64 *against, u32 *word) {
	AccessRecord *whole = &a->lines[line];
	u64 mine = who | 15 << 4;
	Conflict c = touch(whole, mine, mode, against);
	*word = 0;
	if (c || !(atomic_load(&whole->wrote) & FINE))
		return c;
	for (u32 n = 0; !c && n < 4; n++)
		c = check(&a->words[line * 4 + n], mine, mode, against), *word = n;
	return c;
}

// touch_words records an access to parts of a line in the records of its words, and checks that of the line. So accesses to the whole
// line and to parts of it see each other.
static inline Conflict touch_words(Allocation *a, u64 line, u32 from, u32 to, u64 who, AccessMode mode, u64 *against, u32 *word) {
	AccessRecord *whole = &a->lines[line];
	Conflict c = NONE;
	if (!(atomic_load(&whole->wrote) & FINE))
		atomic_fetch_or(&whole->wrote, FINE);
	for (u32 n = from / 4; !c && n * 4 < to; n++) {
		u32 first = from > n * 4 ? from % 4 : 0, end = to < n * 4 + 4 ? to % 4 : 4;
		u64 mine = who | (u64)(((1u << end) - 1) & ~((1u << first) - 1)) << 4;
		c = touch(&a->words[line * 4 + n], mine, mode, against);
		if (!c)
			c = check(whole, mine, mode, against);
		*word = n;
	}
	return c;
}

// touch_bytes records an access to a range; at is where a conflict was found.
Conflict touch_bytes(Allocation *a, u64 offset, u64 n, u64 who, AccessMode mode, u64 *against, u64 *at) {
	for (u64 from = offset, end = offset + n, to; from < end; from = to) {
		u64 line = from / 16;
		u32 word;
		to = line * 16 + 16 < end ? line * 16 + 16 : end;
		Conflict c = to - from == 16 ? touch_whole(a, line, who, mode, against, &word)
			: touch_words(a, line, (u32)(from % 16), (u32)(to - line * 16), who, mode, against, &word);
		if (c) {
			*at = line * 16 + word * 4 > from ? line * 16 + word * 4 : from;
			return c;
		}
	}
	return NONE;
}
