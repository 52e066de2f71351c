// Linear of few narrowed rows: as in linear_narrowed.h, but limited by what multiprocessors read: weights once, rows again for each tile.
// So tiles are small, and a multiprocessor has many copies of several tiles in flight.
#include "linear_narrowed.h"

// A tile: high × broad results by down × across warps, in steps of deep of the inner size, with `stages` stages in flight.
template <u32 high_, u32 broad_, u32 down_, u32 across_, u32 deep_, u32 stages_> struct Tile {
	static constexpr u32 high = high_, broad = broad_, down = down_, across = across_, deep = deep_, stages = stages_,
		threads = 32 * down * across, tall = high / down / 16, wide = broad / across / 8;
	static_assert(high % (down * 16) == 0 && broad % (across * 8) == 0);
};
using T16x16 = Tile<16, 16, 1, 2, 128, 6>;
using T32x16 = Tile<32, 16, 2, 1, 128, 6>;
using T32x32 = Tile<32, 32, 2, 2, 64, 8>;
using T64x40 = Tile<64, 40, 4, 1, 64, 7>;
using T64x96 = Tile<64, 96, 2, 4, 64, 4>;
using T128x80 = Tile<128, 80, 4, 2, 64, 3>;

NARROWED(linear_narrowed_bf16_16x16, false, T16x16, 2)
NARROWED(linear_narrowed_bf16_32x16, false, T32x16, 2)
NARROWED(linear_narrowed_bf16_32x32, false, T32x32, 2)
NARROWED(linear_narrowed_bf16_64x40, false, T64x40, 2)
NARROWED(linear_narrowed_bf16_64x96, false, T64x96, 2)
NARROWED(linear_narrowed_bf16_128x80, false, T128x80, 2)
