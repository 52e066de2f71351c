// What global memory remembers of who touched it.
#ifndef GRPO_EMU_GLOBAL_H
#define GRPO_EMU_GLOBAL_H
#include "machine.h"

// A record packs who touched: operation (32 bits), block (20), fine (1), bytes of the four (4), several blocks (1), mixed (1),
// atomic (1). Mixed are blocks with different bytes of the four: who had which is forgotten, and nothing is said about them.
// Fine has the record of who wrote 16 bytes, once some of their words have records of their own.
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
