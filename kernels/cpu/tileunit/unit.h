#include <stdint.h>

// 0 where the processor has a tile unit, or lacks what its stand-in is made of.
int grpo_use_stand_in(void);
int64_t grpo_stand_in_executed(void);
int64_t grpo_stand_in_holders(void);
int64_t grpo_stand_in_signals(void);

// sums += left · right by the instructions, for tiles of so many rows, pairs and columns, whose rows are so many bytes apart.
void grpo_try_tiles(int rows, int pairs, int columns, float *sums, int64_t sums_row, const void *left, int64_t left_row,
                    const void *right, int64_t right_row);

// Something that the unit refuses: see try.c.
void grpo_try_mistake(int which);

// 22 operations on a, b and the two numbers that to begins with, which are written behind those, each with its conditions; unit: with
// instructions of the unit between them.
void grpo_try_between(int unit, int64_t a, int64_t b, int64_t *to);
