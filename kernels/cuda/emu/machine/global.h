// The records of the last accesses to global memory.
#ifndef GRPO_EMU_GLOBAL_H
#define GRPO_EMU_GLOBAL_H
#include "machine.h"

// A record packs who touched: operation (32 bits), block (20), fine (1), bytes of the four (4), several blocks (1), mixed (1), atomic
// (1). Mixed: several blocks had different bytes of the four; which is not recorded, so nothing is reported about them. Fine: some words
// have records of their own, and this one is of the last write of all 16 bytes.
enum { SEVERAL = 1, MIXED = 2, ATOMICALLY = 4, FINE = 256 };
static inline u64 record(u32 operation, u32 block, u32 bytes, u32 flags) {
	return (u64)operation << 32 | (u64)(block & 0xfffff) << 12 | bytes << 4 | flags;
}
static inline u32 record_operation(u64 r) { return (u32)(r >> 32); }
static inline u32 record_block(u64 r) { return (u32)(r >> 12) & 0xfffff; }
static inline u32 record_bytes(u64 r) { return (u32)r >> 4 & 15; }

typedef enum { NONE, BLOCKS, STREAMS } Conflict;
Conflict touch_bytes(Allocation *a, u64 offset, u64 n, u64 who, How how, u64 *against, u64 *at);
#endif
