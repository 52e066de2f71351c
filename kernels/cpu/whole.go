package cpu

// #include "kernels.h"
import "C"

import "github.com/seed-7879b91d/grpo/kernels"

var _ kernels.WholeMultiplier = (*backend)(nil)

// MultipliesWhole is always true; see whole.h.
func (b *backend) MultipliesWhole() bool { return true }

// multipliesAsIntegers tells whether each chunk of 64 inputs has one scale, as products in integers require.
func (s quantisedShape) multipliesAsIntegers() bool { return s.segment%C.CHUNK == 0 }

// integerRows bounds how many rows share a decoded panel, so that they, at one depth, and their sums stay in the second-level cache.
const integerRows = 256

// linearIntegers is Linear for a matrix that is multiplied in integers.
func (b *backend) linearIntegers(out, x kernels.Cols, w *matrix, o kernels.LinearOpt, T int) {
	m := b.matrix(w)
	round := max(packedBytes/(2*x.N+4*x.N/C.CHUNK), 1)
	for row := 0; row < T; row += round {
		g := C.grpo_integer_products{m: m, rows: C.int64_t(min(round, T-row)), dot: flag(C.grpo_has_dot() != 0)}
		g.out, g.out_stride = at(b.cols(out), row*out.Stride), C.int64_t(out.Stride)
		if o.Bias != nil {
			g.bias = b.f32(o.Bias)
		}
		g.alpha, g.accumulate = C.float(o.Alpha), flag(o.Accumulate)
		b.packIntegers(&g, at(b.cols(x), row*x.Stride), x)
		b.integerProducts(&g)
	}
}

// packIntegers packs rows of x as the left-hand side of g.
func (b *backend) packIntegers(g *C.grpo_integer_products, from *C.float, x kernels.Cols) {
	rows, tiles := int(g.rows), b.tiles(int(g.rows))
	a := args[C.grpo_pack_integers](b)
	pairs := rows * x.N / 2
	packed := b.shared(slotPacked, 4*pairs+4*rows*(x.N/C.CHUNK))
	a.pairs, a.scales = (*C.int32_t)(packed), at((*C.float)(packed), pairs)
	a.x, a.stride, a.rows, a.inner, a.tiles = from, C.int64_t(x.Stride), g.rows, C.int64_t(x.N), C.int64_t(tiles)
	a.values = g.m.values
	g.pairs, g.scales, g.row_tiles = a.pairs, a.scales, a.tiles
	b.run(b.ops.pack_integers, tiles, 8192/(x.N*int(b.ops.tile)))
}

// integerProducts divides g into enough tasks to keep all workers busy to the end, and runs them.
func (b *backend) integerProducts(g *C.grpo_integer_products) {
	tiles, height, columns := int(g.row_tiles), int(b.ops.tile), panels(int(g.m.rows))
	enough := blocksOf(8*b.threads(), columns) // blocks of rows, if there are few panels
	block := min(max(tiles/enough, 1), integerRows/height)
	b.scratch(C.INTEGER_SCRATCH + 4*C.PANEL*block*height)
	a := args[C.grpo_integer_products](b)
	*a = *g
	a.block_tiles = C.int64_t(block)
	work := 2 * block * height * int(g.m.cols) * C.PANEL // operations of one task
	b.run(b.ops.integer_products, blocksOf(tiles, block)*columns, 1+1<<16/work)
}
