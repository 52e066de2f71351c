// Linear of few narrowed rows: as in linear_narrowed.h, but limited by what multiprocessors read: weights once, rows again for each tile.
// So tiles are small, and a multiprocessor has many copies of several tiles in flight.
#include "linear_narrowed.h"

// A tile: tile_rows × tile_columns results by warps_down × warps_across warps, in steps of `depth` of the inner size, with
// `stages` stages in flight.
template <u32 tile_rows_, u32 tile_columns_, u32 warps_down_, u32 warps_across_, u32 depth_, u32 stages_> struct Tile {
	static constexpr u32 tile_rows = tile_rows_, tile_columns = tile_columns_, warps_down = warps_down_, warps_across = warps_across_,
		depth = depth_, stages = stages_, threads = 32 * warps_down * warps_across,
		fragments_down = tile_rows / warps_down / 16, fragments_across = tile_columns / warps_across / 8;
	static_assert(tile_rows % (warps_down * 16) == 0 && tile_columns % (warps_across * 8) == 0);
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
