//go:build gpu

package cuda

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// largeMatrix is the number of weights from which on a product of few rows narrows its rows first. An H100 reads that many weights in about
// the time of a launch; no other number was measured.
const largeMatrix = 1 << 22

// The tiles of src/linear_narrowed_few.cu, for up to 128 rows, and the tile of src/linear_f32_few.cu, for few results.
var (
	tile16x16  = tile{"16x16", 16, 16, 64, 128, 6}
	tile32x16  = tile{"32x16", 32, 16, 64, 128, 6}
	tile32x32  = tile{"32x32", 32, 32, 128, 64, 8}
	tile64x40  = tile{"64x40", 64, 40, 128, 64, 7}
	tile64x96  = tile{"64x96", 64, 96, 256, 64, 4}
	tile128x80 = tile{"128x80", 128, 80, 256, 64, 3}
	fewTiles   = []tile{tile16x16, tile32x16, tile32x32, tile64x40, tile64x96, tile128x80}

	tile4x8 = tile{"4x8", 4, 8, 32, 128, 6}
)

// anyBlocks exceeds the number of blocks of every result.
const anyBlocks = 1 << 20

// fastest says which of fewTiles to take: the first entry for up to `rows` rows whose tile divides the result into at most `blocks` blocks
// per multiprocessor. It was measured on an H100 with 2,560 to 151,936 columns of results and 1 to 128 rows (docs/cuda.md has the times);
// for fewer columns it is a guess. With few columns the duration of a block's steps dominates, which is shorter in small tiles; with many
// columns the memory traffic of all blocks dominates, of which large tiles have less.
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

// narrowsFew is narrows for few rows. A small matrix is not worth the additional launch that narrows the rows.
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

// shared4x8 is the shared memory in bytes of tile4x8.
func (t tile) shared4x8() int { return t.stages * operandBytes(t.rows+t.columns, t.depth, 4, 4) }

// suits4x8 reports whether tile4x8 is faster for a product of Linear: with f32 weights, aligned operands and few results.
func (p *products) suits4x8(x window, w weights, T int) bool {
	return w.dtype == kernels.F32 && w.at%16 == 0 && w.stride%4 == 0 && x.at%16 == 0 && x.stride%4 == 0 && w.k%tile4x8.depth == 0 &&
		tile4x8.blocks(T, w.n) <= 8*p.processors
}

// linearWithRoom is linear without options. If that is faster, it narrows x into room, which has narrowedBytes.
func (p *products) linearWithRoom(s *driver.Stream, room ptr, out, x window, w weights, T int) error {
	if t, ok := p.narrows(linearName, out, w, T); ok {
		return p.narrowAndMultiply(s, linearName, t, out, x, room, w, epilogue{alpha: 1}, T)
	}
	return p.linear(s, out, x, w, epilogue{alpha: 1}, T)
}
