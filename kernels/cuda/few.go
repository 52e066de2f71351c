//go:build gpu

package cuda

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// largeMatrix is the number of weights that an H100 reads in about the time of a launch; other limits were not measured.
const largeMatrix = 1 << 22

// The tiles of src/linear_narrowed_few.cu, for up to 128 rows, and that of src/linear_f32_few.cu, for few results.
var (
	tile16x16  = tile{"16x16", 16, 16, 64, 128, 6}
	tile32x16  = tile{"32x16", 32, 16, 64, 128, 6}
	tile32x32  = tile{"32x32", 32, 32, 128, 64, 8}
	tile64x40  = tile{"64x40", 64, 40, 128, 64, 7}
	tile64x96  = tile{"64x96", 64, 96, 256, 64, 4}
	tile128x80 = tile{"128x80", 128, 80, 256, 64, 3}
	fewTiles   = []tile{tile16x16, tile32x16, tile32x32, tile64x40, tile64x96, tile128x80}

	chains = tile{"4x8", 4, 8, 32, 128, 6}
)

// anyBlocks exceeds the number of blocks of every result.
const anyBlocks = 1 << 20

// fastest says which of fewTiles to take: the first entry with rows for T rows that needs at most blocks blocks per processor. It was
// measured on an H100 with 2,560 to 151,936 results and 1 to 128 rows (docs/cuda.md has the times) and is a guess for fewer results.
// With few results the steps of a block dominate, and small tiles have shorter ones; with many results the memory traffic of all blocks
// dominates, and large tiles have less of it.
var fastest = []struct {
	tile
	rows, blocks int
}{
	{tile16x16, 16, anyBlocks},
	{tile32x16, 128, 3},
	{tile32x32, 32, anyBlocks},
	{tile32x32, 64, 3},
	{tile64x40, 64, anyBlocks},
	{tile64x40, 128, 1},
	{tile64x96, 128, 1},
	{tile128x80, 128, 2},
}

// narrowsFew is narrows for few rows. Narrowing takes one more launch, which does not pay for a small matrix.
func (p *products) narrowsFew(w weights, T int) (t tile, ok bool) {
	if w.n*w.k < p.large {
		return tile{}, false
	}
	for _, f := range fastest {
		if T <= f.rows && f.tile.blocks(T, w.n) <= f.blocks*p.processors {
			return f.tile, true
		}
	}
	return tile{}, false
}

// chainsShared is the shared memory of chains.
func (t tile) chainsShared() int { return t.stages * factor(t.rows+t.columns, t.depth, 4, 4) }

// chained reports whether a product of Linear with weights in f32 has so few results that the tile chains is faster.
func (p *products) chained(x window, w weights, T int) bool {
	return w.dtype == kernels.F32 && w.at%16 == 0 && w.stride%4 == 0 && x.at%16 == 0 && x.stride%4 == 0 && w.k%chains.depth == 0 &&
		chains.blocks(T, w.n) <= 8*p.processors
}

// linearIn is out = x · wᵀ. If that is faster, it narrows x into room, which has narrowedBytes.
func (p *products) linearIn(s *driver.Stream, room ptr, out, x window, w weights, T int) error {
	if t, ok := p.narrows(linearName, out, w, T); ok {
		return p.throughStrips(s, linearName, t, out, x, room, w, written{alpha: 1}, T)
	}
	return p.linear(s, out, x, w, written{alpha: 1}, T)
}
