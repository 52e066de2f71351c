// 4-bit weights: a code selects one of 16 values, which is multiplied by the scale of its group and rounded to bf16.
#pragma once
#include "words.h"

// A matrix of codes. Rows begin at multiples of 16 bytes and have two codes to a byte, the first in the high half, padded with 0. A group
// is 2^shift columns of a row, and ends with it.
struct Codes {
	const unsigned char *at;
	const float *scales;
	u32 shift;
	const float *values;
};
#define CODES_ARGUMENTS const unsigned char *codes, const float *scales, u32 shift, const float *values
#define CODES Codes {codes, scales, shift, values}

// The bytes of a row of the given number of columns.
DEVICE u32 row_bytes(u32 columns) { return (columns + 31) / 32 * 16; }

// The weight in a row and a column, rounded to bf16, ties to even.
DEVICE float weight_of(const Codes &w, u32 columns, u64 row, u32 column) {
	u32 code = w.at[row * row_bytes(columns) + column / 2] >> (column % 2 ? 0 : 4) & 15;
	u32 bits = __builtin_bit_cast(u32, w.values[code] * w.scales[row * (columns >> w.shift) + (column >> w.shift)]);
	return __builtin_bit_cast(float, (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}
