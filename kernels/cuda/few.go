//go:build gpu

package cuda

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// largeMatrix is how many weights take about as long to be read on an H100 as a launch takes; other limits were not measured.
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

// anyBlocks is a number of blocks that no result has.
const anyBlocks = 1 << 20

// fastest is which of them is: the first one for so many rows whose blocks are at most so many for each processor. That is what was
// measured on an H100 with 2,560 to 151,936 results and 1 to 128 rows; docs/cuda.md has the times. With fewer results it is a guess.
// Where results are few, the steps of a block take the time, and small tiles have less to do in each; where they are many, what all
// blocks bring, and large tiles bring less.
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

// narrowsFew is narrows for so few rows. To narrow them is one launch more, which a small matrix is not worth.
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
func (t tile) chainsShared() int { return t.stages * factor(t.high+t.broad, t.deep, 4, 4) }

// chained says whether a product of Linear with weights in f32 has so few results that it is faster in chains.
func (p *products) chained(x window, w weights, T int) bool {
	return w.dtype == kernels.F32 && w.at%16 == 0 && w.stride%4 == 0 && x.at%16 == 0 && x.stride%4 == 0 && w.k%chains.deep == 0 &&
		chains.blocks(T, w.n) <= 8*p.processors
}

// linearIn is out = x · wᵀ, by rows that are narrowed into a room of narrowedBytes where that is faster.
func (p *products) linearIn(s *driver.Stream, room ptr, out, x window, w weights, T int) error {
	if t, ok := p.narrows(linearName, out, w, T); ok {
		return p.throughStrips(s, linearName, t, out, x, room, w, written{alpha: 1}, T)
	}
	return p.linear(s, out, x, w, written{alpha: 1}, T)
}
