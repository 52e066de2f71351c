// Linear of up to 8 rows, which a warp has at once: as in linear.cu.
#include "linear_few.h"

STRAND(linear_bf16_8x16, 1, 1, 2, 128, 8)
STRAND(linear_bf16_8x64, 1, 2, 4, 64, 6)
