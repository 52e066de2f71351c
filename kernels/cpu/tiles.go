package cpu

// #include "kernels.h"
import "C"

import "github.com/seed-7879b91d/grpo/kernels"

// TileUnit is what this machine computes the order of tiles with.
type TileUnit struct {
	Native bool   // by its tile instructions (AMX)
	Reason string // why not: by fused multiply-adds, to the same bits, at less than their usual speed
}

// Tiles asks the processor for its tile instructions, and the kernel for leave to use them.
func Tiles() TileUnit {
	switch C.grpo_tile_unit() {
	case C.TILES_GRANTED:
		return TileUnit{Native: true}
	case C.TILES_REFUSED:
		return TileUnit{Reason: "the processor has AMX, and the kernel refuses it to this process (arch_prctl)"}
	case C.TILES_NOT_BUILT:
		return TileUnit{Reason: "this program was built without the kernels for AMX, which are for linux/amd64"}
	}
	return TileUnit{Reason: "the processor has no AMX"}
}

// How many tiles of rows, and pieces of them, share the panels of a task at most, so that what they read of a left-hand side at one depth
// stays in the second-level cache beside the sums of C.TILE_PANELS. A left-hand side of smallLeft bytes stays there at all depths, beside
// the sums of smallPanels; but a block of fewPieces or less is not worth that, for each makes its right-hand side. One that does not stay
// is fetched again for each group of panels, and that is a third of the time with C.TILE_PANELS: manyPanels are better, while there is work
// for all.
const (
	blockTiles  = 32
	blockPieces = 48
	smallLeft   = 5 << 18
	smallPanels = 4
	manyPanels  = 16
	fewPieces   = 22
)

// tilesBlock is how many tiles of rows, two of which are done at a time, and how many panels are one task.
func (b *backend) tilesBlock(tiles, columns, inner, pieces int) (block, together int) {
	const two = 2 * C.TILE
	stay := 2 * (smallLeft / leftBytes(two, inner, pieces))
	switch {
	case tiles <= 2: // a panel is read once, whatever is beside it
		return 2, min(C.TILE_PANELS, max(columns/(4*b.threads()), 1))
	case stay*pieces > fewPieces:
		return b.blockOfRows(tiles, min(stay, blockTiles), blocksOf(columns, smallPanels)), smallPanels
	case tiles <= stay:
		return b.blockOfRows(tiles, tiles, blocksOf(columns, C.TILE_PANELS)), C.TILE_PANELS
	}
	for most := min(blockTiles, blockPieces/pieces); most > 2; most /= 2 {
		block := even(blocksOf(tiles, blocksOf(tiles, most)))
		for _, together := range []int{manyPanels, C.TILE_PANELS} {
			if n := blocksOf(tiles, block) * blocksOf(columns, together); n%b.threads() == 0 || n >= 4*b.threads() {
				return block, together
			}
		}
	}
	return 2, C.TILE_PANELS
}

// blockOfRows is at most so many tiles of rows: fewer where there are not enough groups of panels to keep all workers busy to the end.
func (b *backend) blockOfRows(tiles, most, groups int) int {
	return even(min(max(tiles/blocksOf(4*b.threads(), groups), 1), most))
}

// A result of so many bytes, or a packed left-hand side, is written around the caches: it would not stay in the second level until it is
// read, and a line that is written whole need not be fetched first.
var streamedBytes = 2 << 20

// streams tells whether a result of so many floats is written around the caches.
func streams(floats int) bool { return 4*floats >= streamedBytes }

// pieces is how many numbers of bf16 stand for one that is multiplied with the matrix, in the order of tiles; 0 where the
// product is taken in series.
func (b *backend) pieces(m *C.grpo_matrix) int {
	switch {
	case b.order != kernels.Tiles || m.dtype != C.GRPO_BF16:
		return 0
	case m.rounds != 0:
		return 1
	}
	return C.PIECES
}

// rowTiles is how many tiles so many rows take.
func rowTiles(rows int) int { return blocksOf(rows, C.TILE) }

// leftBytes is the size of rows in pieces, as a left-hand side of whole twos of tiles.
func leftBytes(rows, inner, pieces int) int {
	return even(rowTiles(rows)) * blocksOf(inner, C.TILE_INPUTS) * pieces * C.TILE_BYTES
}

// leftRows is how many of so many rows are packed at a time: in as few rounds as the copy allows, of about one size, for a round of a few
// rows makes its right-hand side for little.
func leftRows(rows, inner, pieces int) int {
	const two = 2 * C.TILE
	most, twos := max(packedBytes/leftBytes(two, inner, pieces), 1), max(blocksOf(rows, two), 1)
	return blocksOf(twos, blocksOf(twos, most)) * two
}

// multiplyTiles does the product in the order of tiles.
func (b *backend) multiplyTiles(p *product, pieces int) {
	round := leftRows(p.rows, p.inner, pieces)
	for row := 0; row < p.rows; row += round {
		g, rows := p.g, min(round, p.rows-row)
		g.rows, g.inner, g.pieces = C.int64_t(rows), C.int64_t(p.inner), C.int32_t(pieces)
		g.a = b.packTiles(b.ops.pack_tiles, slotPacked, at(p.x, row*p.xStride), p.xStride, &g)
		b.finishTiles(p, g, row, rows)
	}
}

// finishTiles does some rows of the product, whose left-hand side is there.
func (b *backend) finishTiles(p *product, g C.grpo_gemm, row, rows int) {
	g.rows, g.inner = C.int64_t(rows), C.int64_t(p.inner)
	g.out, g.out_stride = at(p.out, row*p.outStride), C.int64_t(p.outStride)
	g.stream = flag(g.accumulate == 0 && streams(int(g.rows*g.cols)))
	b.tilesGemm(&g)
}

// outer is dw [n, k] += alpha · dyᵀ · x, for dy [rows, n] and x [rows, k].
type outer struct {
	dw, dy, x                   *C.float
	dwStride, dyStride, xStride int
	n, k, rows                  int
	alpha                       C.float
	slot                        int // of the packed factor

	dyApart, xApart C.int64_t // of one that is rounded, see rounded.go
}

// outerTiles does the product in the order of tiles. The left-hand side, whose columns have to become rows, is dy, or x where that is
// much narrower, or has to be because dy is rounded; a product of two numbers does not depend on which comes first.
func (b *backend) outerTiles(p *outer) {
	g := C.grpo_gemm{b_kind: C.B_ROWS, b: p.x, b_stride: C.int64_t(p.xStride), b_apart: p.xApart, cols: C.int64_t(p.k),
		pieces: 1, inner: C.int64_t(p.rows), out_stride: C.int64_t(p.dwStride), alpha: p.alpha, accumulate: 1}
	left, stride, columns, step := p.dy, p.dyStride, p.n, p.dwStride
	if p.dyApart > 0 || p.xApart == 0 && isTall(p.n, p.k) {
		left, stride, columns, step = p.x, p.xStride, p.k, 1
		g.b, g.b_stride, g.b_apart, g.cols, g.out_across = p.dy, C.int64_t(p.dyStride), p.dyApart, C.int64_t(p.n), 1
	}
	round := leftRows(columns, p.rows, 1)
	for row := 0; row < columns; row += round {
		g.rows, g.out = C.int64_t(min(round, columns-row)), at(p.dw, row*step)
		g.a = b.packTiles(b.ops.pack_tiles_across, p.slot, at(left, row), stride, &g)
		b.tilesGemm(&g)
	}
}

// packTiles makes the left-hand side of g of rows of x, in a shared region.
func (b *backend) packTiles(kernel *C.grpo_kernel, slot int, x *C.float, stride int, g *C.grpo_gemm) *C.float {
	tiles := rowTiles(int(g.rows))
	a := args[C.grpo_pack_tiles](b)
	bytes := leftBytes(int(g.rows), int(g.inner), int(g.pieces))
	a.packed, a.stream = b.shared(slot, bytes), flag(bytes >= streamedBytes)
	a.x, a.stride = x, C.int64_t(stride)
	a.rows, a.inner, a.pieces = g.rows, g.inner, g.pieces
	packed := (*C.float)(a.packed)
	b.run(kernel, tiles, 8192/(int(g.inner)*C.TILE))
	return packed
}

// tilesGemm runs g, cut into tasks.
func (b *backend) tilesGemm(g *C.grpo_gemm) {
	tiles, columns := rowTiles(int(g.rows)), panels(int(g.cols))
	block, together := b.tilesBlock(tiles, columns, int(g.inner), int(g.pieces))
	b.scratch(int(C.grpo_tiles_scratch(C.int64_t(block), C.int64_t(max(together, C.TILE_PANELS)))))
	a := args[C.grpo_tiles_gemm](b)
	*a = *g
	a.row_tiles, a.block_tiles, a.block_panels = C.int64_t(tiles), C.int64_t(block), C.int64_t(together)
	a.rows_first = flag(together != smallPanels)
	b.run(b.ops.tiles_gemm, blocksOf(tiles, block)*blocksOf(columns, together), 1)
}
