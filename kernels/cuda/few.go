//go:build gpu

package cuda

import (
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// largeMatrix is how many weights take as long to be read as a launch takes.
const largeMatrix = 1 << 22

// The tiles of src/linear_few.cu, for up to 8 rows, where each warp has a ring of its own: the first where outputs are few. Then those of
// src/linear_narrowed_few.cu, for up to 128 rows, and that of src/linear_f32_few.cu.
var (
	fewTiles = []tile{
		{"8x16", 8, 16, 64, 128, 8},
		{"8x64", 8, 64, 128, 64, 6},
	}
	fewNarrowedTiles = []tile{
		{"16x16", 16, 16, 64, 64, 12},
		{"16x64", 16, 64, 128, 64, 6},
		{"32x32", 32, 32, 128, 64, 12},
		{"32x64", 32, 64, 256, 64, 6},
		{"64x40", 64, 40, 128, 64, 7},
		{"64x96", 64, 96, 256, 64, 4},
		{"128x160x32", 128, 160, 256, 32, 5},
	}
	chains = tile{"4x8", 4, 8, 32, 128, 6}
)

// fewShared is the shared memory of the first, which have but weights there.
func (t tile) fewShared() int { return t.stages * factor(t.broad, t.deep, 0, 2) }

// chainsShared is that of the others.
func (t tile) chainsShared() int { return t.stages * factor(t.high+t.broad, t.deep, 4, 4) }

// few says whether a product of Linear has so few rows, or so few results, that a kernel for those is faster, and in which tile then.
func (p *products) few(x window, w weights, T int) (t tile, ok bool) {
	if w.codes.values != 0 || w.at%16 != 0 || w.stride*w.dtype.Size()%16 != 0 {
		return tile{}, false
	}
	switch w.dtype {
	case kernels.BF16Rounding:
		if t = fewTiles[0]; t.blocks(T, w.n) > 4*p.processors {
			t = fewTiles[1]
		}
		ok = T <= t.high && x.at%8 == 0 && x.stride%2 == 0
	case kernels.F32:
		t = chains
		ok = t.blocks(T, w.n) <= 8*p.processors && x.at%16 == 0 && x.stride%4 == 0
	}
	return t, ok && w.k%t.deep == 0
}

// narrowsFew is narrows where rows are few: the tile of which all blocks bring the least, rows and columns, for each step of the inner
// size. A card brings as much to three quarters of its processors as to all. To narrow rows is one launch more, which a small matrix is not
// worth, and which few has no need of.
func (p *products) narrowsFew(op string, w weights, T int) (best tile, ok bool) {
	if op != linearName || w.n*w.k < p.large || T <= fewTiles[0].high && w.k%fewTiles[0].deep == 0 {
		return tile{}, false
	}
	least := 0
	for _, t := range fewNarrowedTiles {
		blocks := t.blocks(T, w.n)
		brings := max(4*blocks, 3*p.processors*ceil(blocks, p.processors)) * (t.high + t.broad)
		if T > t.high/2 && (!ok || brings < least) {
			best, least, ok = t, brings, true
		}
	}
	return best, ok
}

// linearIn is out = x · wᵀ, by rows that are narrowed into a room of narrowedBytes where that is faster.
func (p *products) linearIn(s *driver.Stream, room ptr, out, x window, w weights, T int) error {
	if t, ok := p.narrows(linearName, out, w, T); ok {
		return p.throughStrips(s, linearName, t, out, x, room, w, written{alpha: 1}, T)
	}
	return p.linear(s, out, x, w, written{alpha: 1}, T)
}
