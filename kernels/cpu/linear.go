package cpu

// #include "kernels.h"
import "C"

import (
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// packedBytes bounds the packed copy of a product's left-hand side, which all panels of columns share. More rows
// take several rounds. 512 rows of 6,144 inputs in three pieces fit into one.
var packedBytes = 20 << 20

// blockRows is how many rows share one converted panel. With at most fewPanels panels packing the left-hand side does not pay. A
// reduction of at most shallow inputs is bound by writing, so its rows are finished one tile after the other. The rows of a
// right-hand side in a buffer are read for rowPanels panels together, if there is room for the sums of all rows: memory is slow to
// read in short pieces.
const (
	blockRows = 512
	fewPanels = 4
	shallow   = 64
	rowPanels = 8
)

// Linear: out [T, N] = (accumulate ? out : 0) + alpha · x [T, K] · wᵀ + bias.
func (b *backend) Linear(out, x kernels.Cols, w kernels.Matrix, o kernels.LinearOpt, T int) {
	if T == 0 {
		return
	}
	defer b.release()
	if m, ok := w.(*matrix); ok && m.integers {
		b.requireFloats(x)
		b.linearIntegers(out, x, m, o, T)
		return
	}
	p := product{rows: T, inner: x.N, outStride: out.Stride, xStride: x.Stride, pack: b.ops.pack_rows}
	p.out = b.cols(out)
	p.g = C.grpo_gemm{b_kind: C.B_OUTPUTS, m: b.matrix(w), cols: C.int64_t(out.N)}
	if o.Bias != nil {
		p.g.bias = b.f32(o.Bias)
	}
	p.g.alpha, p.g.accumulate = C.float(o.Alpha), flag(o.Accumulate)
	b.multiplyRows(&p, x)
}

// LinearGradX: dx [T, K] = (accumulate ? dx : 0) + alpha · dy [T, N] · w.
func (b *backend) LinearGradX(dx, dy kernels.Cols, w kernels.Matrix, o kernels.LinearOpt, T int) {
	if T == 0 {
		return
	}
	defer b.release()
	p := product{rows: T, inner: dy.N, outStride: dx.Stride, xStride: dy.Stride, pack: b.ops.pack_rows}
	p.out = b.cols(dx)
	p.g = C.grpo_gemm{b_kind: C.B_INPUTS, m: b.matrix(w), cols: C.int64_t(dx.N), gradual: flag(o.Accumulate)}
	p.g.alpha, p.g.accumulate = C.float(o.Alpha), flag(o.Accumulate)
	b.multiplyRows(&p, dy)
}

// LinearGradW: dw [N, K] += alpha · dyᵀ [N, T] · x [T, K].
func (b *backend) LinearGradW(dw kernels.Buffer, dy, x kernels.Cols, alpha float32, factors kernels.DType, T int) {
	N, K := dy.N, x.N
	if T == 0 {
		return
	}
	defer b.release()
	if b.order == kernels.Tiles && factors == kernels.BF16 {
		b.outerRows(dw, dy, x, alpha, T)
		return
	}
	b.requireFloats(dy, x)
	left, right, across := dy, x, isTall(N, K)
	if across {
		left, right = x, dy
	}
	p := product{rows: left.N, inner: T, outStride: K, xStride: left.Stride, pack: b.ops.pack_cols}
	p.x, p.out = b.cols(left), b.f32(dw)
	p.g = C.grpo_gemm{b_kind: C.B_ROWS, b: b.cols(right), cols: C.int64_t(right.N), out_across: flag(across)}
	p.g.b_stride = C.int64_t(right.Stride)
	p.g.alpha, p.g.accumulate = C.float(alpha), 1
	b.multiply(&p)
}

// isTall tells whether a weight has so many more rows than columns that its gradient has x on the left and is written transposed, so
// that the wide side is read by rows.
func isTall(n, k int) bool { return 8*k < n }

// BiasGrad: db [N] += the sum of the rows of dy [T, N].
func (b *backend) BiasGrad(db kernels.Buffer, dy kernels.Cols, T int) {
	if T == 0 {
		return
	}
	defer b.release()
	a := args[C.grpo_bias_grad](b)
	a.dy, a.db = b.cols(dy), b.f32(db)
	a.stride, a.rows, a.cols = C.int64_t(dy.Stride), C.int64_t(T), C.int64_t(dy.N)
	b.run(b.ops.bias_grad, (dy.N+C.SUM_COLUMNS-1)/C.SUM_COLUMNS, 1)
}

// product is out [rows, cols] from x, which pack_rows reads as [rows, inner] and pack_cols as
// [inner, rows], and the right-hand side in g.
type product struct {
	x, out             *C.float
	xStride, outStride int
	rows, inner        int
	pack               *C.grpo_kernel
	g                  C.grpo_gemm
}

// multiplyRows computes the product with rows of x.
func (b *backend) multiplyRows(p *product, x kernels.Cols) {
	if b.leftRounded(&p.g, x, b.pieces(&p.g.m)) {
		b.finishTiles(p, p.g, 0, p.rows)
		return
	}
	p.x = b.cols(x)
	b.multiply(p)
}

// multiply computes the product. If the left-hand side has few rows or is read only a few times, and needs no
// conversion, it is used in place; otherwise it is packed, in rounds of as many rows as the packed copy may hold.
func (b *backend) multiply(p *product) {
	if pieces := b.pieces(&p.g.m); pieces > 0 {
		b.multiplyTiles(p, pieces)
		return
	}
	columns := panels(int(p.g.cols))
	inPlace, step, form, outStep := C.int32_t(C.A_ROWS), p.xStride, C.int32_t(C.AS_IT_IS), p.outStride
	if p.g.out_across != 0 {
		outStep = 1
	}
	if p.pack == b.ops.pack_cols {
		inPlace, step = C.A_COLS, 1
	}
	inner := p.inner
	if p.g.b_kind != C.B_ROWS {
		form = b.leftForm(&p.g.m)
	}
	switch {
	case form == C.PAIRED:
		p.g.paired, inner = 1, even(inner)
	case p.g.b_kind == C.B_OUTPUTS:
		inner = wholePairs(&p.g.m, inner)
	}
	p.g.out, p.g.out_stride, p.g.inner = p.out, C.int64_t(p.outStride), C.int64_t(inner)
	if (columns <= fewPanels || p.rows <= int(b.ops.low_tile)) && form == C.AS_IT_IS && inner == p.inner {
		p.g.a_kind, p.g.a, p.g.a_stride = inPlace, p.x, C.int64_t(p.xStride)
		p.g.rows = C.int64_t(p.rows)
		b.gemm(&p.g, int(b.ops.tile))
		return
	}
	height := int(b.ops.tile)
	if low := int(b.ops.low_tile); p.g.b_kind == C.B_OUTPUTS && p.g.m.patches != nil && p.rows <= C.LOW_TILES*low {
		height = low
	}
	round := max(packedBytes/(4*inner)/height*height, height)
	for row := 0; row < p.rows; row += round {
		rows := min(round, p.rows-row)
		p.g.a = b.pack(p.pack, leftHand{slot: slotPacked, x: at(p.x, row*step), stride: p.xStride, rows: rows,
			inner: p.inner, padded: inner, height: height, form: form})
		p.g.rows, p.g.out = C.int64_t(rows), at(p.out, row*outStep)
		b.gemm(&p.g, height)
	}
}

// leftForm is how the numbers that are multiplied with the matrix are converted.
func (b *backend) leftForm(m *C.grpo_matrix) C.int32_t {
	switch {
	case m.rounds == 0:
		return C.AS_IT_IS
	case b.pairs:
		return C.PAIRED
	}
	return C.ROUNDED
}

func even(n int) int { return (n + 1) &^ 1 }

// wholePairs is the number of inputs of a product with the rows of the matrix, rounded up to pairs for bf16.
func wholePairs(m *C.grpo_matrix, inputs int) int {
	if m.dtype == C.GRPO_BF16 {
		return even(inputs)
	}
	return inputs
}

// tiles is the number of register tiles of the rows.
func (b *backend) tiles(rows int) int { return (rows + int(b.ops.tile) - 1) / int(b.ops.tile) }

// leftHand is a left-hand side for pack, and the form in which it is packed.
type leftHand struct {
	slot                        int
	x                           *C.float
	stride, rows, inner, padded int // padded: 0 is inner
	height                      int // of a tile; 0: full
	form                        C.int32_t
}

// pack copies the left-hand side of a product into tiles in a shared region.
func (b *backend) pack(kernel *C.grpo_kernel, l leftHand) *C.float {
	l.padded = max(l.padded, l.inner)
	a := args[C.grpo_pack_rows](b)
	a.packed = (*C.float)(b.shared(l.slot, 4*l.rows*l.padded))
	a.x, a.stride, a.form = l.x, C.int64_t(l.stride), l.form
	a.rows, a.inner, a.padded = C.int64_t(l.rows), C.int64_t(l.inner), C.int64_t(l.padded)
	tiles := b.tiles(l.rows)
	if l.height > 0 {
		tiles = (l.rows + l.height - 1) / l.height
	}
	a.tiles = C.int64_t(tiles)
	packed := a.packed
	b.run(kernel, tiles, 8192/(l.inner*int(b.ops.tile)))
	return packed
}

// gemm runs g in tiles of at most that height, divided into enough tasks to keep all workers busy to the end.
func (b *backend) gemm(g *C.grpo_gemm, height int) {
	rows, inner := int(g.rows), int(g.inner)
	if g.a_kind == C.A_ROWS {
		height = int(b.ops.low_tile)
	}
	tiles, columns := (rows+height-1)/height, panels(int(g.cols))
	enough := (8*b.threads() + columns - 1) / columns // blocks of rows, if there are few panels
	block := min(max(tiles/enough, 1), blockRows/height)
	if inner <= shallow && columns > fewPanels {
		block = 1
	}
	if g.b_kind == C.B_ROWS && g.a_kind == C.A_PACKED && rowPanels*rows <= blockRows && g.bias == nil && g.row_scale == nil {
		b.gemmRows(g, tiles)
		return
	}
	blocks := (tiles + block - 1) / block
	b.scratch(4 * C.PANEL * (C.DEPTH + block*height))
	a := args[C.grpo_gemm](b)
	*a = *g
	a.row_tiles, a.block_tiles = C.int64_t(tiles), C.int64_t(block)
	work := 2 * rows / blocks * inner * C.PANEL // flops of one task
	b.run(b.ops.gemm, blocks*columns, 1+1<<16/work)
}

// gemmRows runs a product of a few rows with a buffer. A task has all row tiles and some of the panels.
func (b *backend) gemmRows(g *C.grpo_gemm, tiles int) {
	columns := panels(int(g.cols))
	together := min(rowPanels, max(columns/(2*b.threads()), 1))
	b.scratch(4 * C.PANEL * (C.DEPTH + together*int(g.rows)))
	a := args[C.grpo_gemm](b)
	*a = *g
	a.row_tiles, a.block_panels = C.int64_t(tiles), C.int64_t(together)
	b.run(b.ops.gemm, blocksOf(columns, together), 1)
}

// at is the address of element i.
func at[E any](p *E, i int) *E {
	return (*E)(unsafe.Add(unsafe.Pointer(p), i*int(unsafe.Sizeof(*p))))
}

func flag(on bool) C.int32_t {
	if on {
		return 1
	}
	return 0
}
