package cpu

// #include "kernels.h"
import "C"

import "github.com/seed-7879b91d/grpo/kernels"

// TileUnit says how this machine computes the order of tiles.
type TileUnit struct {
	Native bool   // by tile instructions (AMX)
	Reason string // if not, why: it uses fused multiply-adds instead, with the same bits but slower than in series
}

// Tiles looks for tile instructions, and asks the kernel for permission to use them.
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

// blockTiles and blockPieces bound the tiles of rows of a task, and their pieces, so that their part of the left-hand side at one depth
// stays in the second-level cache beside the sums of C.TILE_PANELS panels. A left-hand side of smallLeft bytes stays there at all depths,
// beside the sums of smallPanels; but with at most fewPieces pieces that does not pay, because each block prepares its right-hand side. A
// left-hand side that does not stay is fetched again for each group of panels, a third of the time with C.TILE_PANELS; then manyPanels
// are better, as long as there is work for all threads.
const (
	blockTiles  = 32
	blockPieces = 48
	smallLeft   = 5 << 18
	smallPanels = 4
	manyPanels  = 16
	fewPieces   = 22
)

// tilesBlock is the number of tiles of rows, a multiple of two, and of panels of one task.
func (b *backend) tilesBlock(tiles, columns, inner, pieces int) (block, together int) {
	const two = 2 * C.TILE
	stay := 2 * (smallLeft / leftBytes(two, inner, pieces))
	switch {
	case tiles <= 2: // every panel is read once, in whichever task
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

// blockOfRows is the number of tiles of rows of a task: the given limit, or fewer if there are too few groups of panels to keep all
// workers busy to the end.
func (b *backend) blockOfRows(tiles, most, groups int) int {
	return even(min(max(tiles/blocksOf(4*b.threads(), groups), 1), most))
}

// streamedBytes is the size from which a result, or a packed left-hand side, is written around the caches: it would not stay in the
// second level until it is read, and a cache line that is written whole need not be fetched first.
var streamedBytes = 2 << 20

// streams tells whether a result of that many floats is written around the caches.
func streams(floats int) bool { return 4*floats >= streamedBytes }

// pieces is how many numbers of bf16 represent a number that is multiplied with the matrix in the order of tiles; 0 if the
// product is in series.
func (b *backend) pieces(m *C.grpo_matrix) int {
	switch {
	case b.order != kernels.Tiles || m.dtype != C.GRPO_BF16:
		return 0
	case m.rounds != 0:
		return 1
	}
	return C.PIECES
}

// rowTiles is the number of tiles of the rows.
func rowTiles(rows int) int { return blocksOf(rows, C.TILE) }

// leftBytes is the size of a packed left-hand side, whose number of tiles is even.
func leftBytes(rows, inner, pieces int) int {
	return even(rowTiles(rows)) * blocksOf(inner, C.TILE_INPUTS) * pieces * C.TILE_BYTES
}

// leftRows is how many of the rows are packed at a time: as few rounds as packedBytes allows, of about the same size, since every round
// prepares the right-hand side, which does not pay for a few rows.
func leftRows(rows, inner, pieces int) int {
	const two = 2 * C.TILE
	most, twos := max(packedBytes/leftBytes(two, inner, pieces), 1), max(blocksOf(rows, two), 1)
	return blocksOf(twos, blocksOf(twos, most)) * two
}

// multiplyTiles computes the product in the order of tiles.
func (b *backend) multiplyTiles(p *product, pieces int) {
	round := leftRows(p.rows, p.inner, pieces)
	for row := 0; row < p.rows; row += round {
		g, rows := p.g, min(round, p.rows-row)
		g.rows, g.inner, g.pieces = C.int64_t(rows), C.int64_t(p.inner), C.int32_t(pieces)
		g.a = b.packTiles(b.ops.pack_tiles, slotPacked, at(p.x, row*p.xStride), p.xStride, &g)
		b.finishTiles(p, g, row, rows)
	}
}

// finishTiles computes rows of the product whose left-hand side is ready: packed, or rounded rows.
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

	dyApart, xApart C.int64_t // the stride of a rounded one; see rounded.go
}

// outerTiles computes the product in the order of tiles. The left-hand side, which must be transposed, is dy; or it is x if that is much
// narrower, or if dy is rounded. The bits are the same, because multiplication is commutative.
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

// packTiles packs rows of x as the left-hand side of g, in a shared region.
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

// tilesGemm divides g into tasks and runs them.
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
