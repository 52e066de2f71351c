#include <stdint.h>

// Returns 0 if the processor has a tile unit, or lacks instructions that the emulation needs.
int grpo_use_stand_in(void);
int64_t grpo_stand_in_executed(void);
int64_t grpo_stand_in_holders(void);
int64_t grpo_stand_in_signals(void);

// sums += left · right, using the instructions, for tiles of the given sizes, with strides in bytes.
void grpo_try_tiles(int rows, int pairs, int columns, float *sums, int64_t sums_row, const void *left, int64_t left_row,
                    const void *right, int64_t right_row);

// An invalid use of the unit: see try.c.
void grpo_try_mistake(int which);

// Runs 22 operations on a, b and the first two numbers of `to`. After those it writes for each operation the conditions and the result.
// With unit there are instructions of the unit between the operations.
void grpo_try_between(int unit, int64_t a, int64_t b, int64_t *to);
