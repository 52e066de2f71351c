// The encoding of records of accesses to global memory.
#ifndef GRPO_EMU_GLOBAL_H
#define GRPO_EMU_GLOBAL_H
#include "machine.h"

// The fields of a record, from the highest bit: operation (32 bits), block (20), unused (3), FINE (1), bytes of the word (4), unused (1),
// ATOMICALLY, MIXED, SEVERAL (1 each). SEVERAL: several blocks accessed the same bytes. MIXED: several blocks accessed different bytes;
// which is not recorded, so nothing is reported about them. FINE: some words have records of their own, and this one is of the last
// write of all 16 bytes.
enum { SEVERAL = 1, MIXED = 2, ATOMICALLY = 4, FINE = 256 };
static inline u64 record(u32 operation, u32 block, u32 bytes, u32 flags) {
	return (u64)operation << 32 | (u64)(block & 0xfffff) << 12 | bytes << 4 | flags;
}
static inline u32 record_operation(u64 r) { return (u32)(r >> 32); }
static inline u32 record_block(u64 r) { return (u32)(r >> 12) & 0xfffff; }
static inline u32 record_bytes(u64 r) { return (u32)r >> 4 & 15; }

typedef enum { NONE, BLOCKS, STREAMS } Conflict;
Conflict touch_bytes(Allocation *a, u64 offset, u64 n, u64 who, AccessMode mode, u64 *against, u64 *at);
#endif
