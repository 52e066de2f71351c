package cpu

// #include "kernels.h"
import "C"

import (
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

var _ kernels.RowRounder = (*backend)(nil)

// roundedRoom is the padding after a rounded row, in numbers: rows a power of two apart would share few sets of the caches.
const roundedRoom = C.TILE_INPUTS

// RoundedLen rounds T up to two tiles, because tiles are read whole and two at a time.
func (b *backend) RoundedLen(width, T int) int {
	if width%C.TILE_INPUTS != 0 {
		return 0
	}
	return 2 * C.TILE * blocksOf(T, 2*C.TILE) * (width + roundedRoom)
}

// apartOf is the stride in bytes of rounded rows of that width; 0 if the rows are floats.
func apartOf(x kernels.Buffer, width int) C.int64_t {
	if x.DType() != kernels.BF16 {
		return 0
	}
	return C.int64_t(kernels.BF16.Size() * (width + roundedRoom))
}

// resultRows is the address of an operation's result rows, and their stride in bytes if they are rounded. A rounded row is computed in
// scratch space first, behind `beside` other numbers that the operation keeps there.
func (b *backend) resultRows(out kernels.Buffer, width, beside int) (*C.float, C.int64_t) {
	apart := apartOf(out, width)
	if apart > 0 || beside > 0 {
		b.scratch(4 * (width + beside))
	}
	return (*C.float)(b.address(out)), apart
}

// streamedResultRows is resultRows for T rows; stream is 1 if they are so large that they are written around the caches.
func (b *backend) streamedResultRows(out kernels.Buffer, width, beside, T int) (p *C.float, apart, stream C.int64_t) {
	p, apart = b.resultRows(out, width, beside)
	floats := T * width
	if apart > 0 {
		floats /= 2
	}
	if streams(floats) {
		b.scratch(4 * (width + beside))
		stream = 1
	}
	return p, apart, stream
}

// leftRounded makes x the left-hand side of g, in place, if its rows are rounded. It reports whether they are.
func (b *backend) leftRounded(g *C.grpo_gemm, x kernels.Cols, pieces int) bool {
	g.a_apart = apartOf(x.Buf, x.Stride)
	if g.a_apart == 0 {
		return false
	}
	b.requireRoundingTiles(pieces)
	g.a, g.pieces, g.a_kind = b.roundedCols(x), 1, C.A_ROWS
	return true
}

// roundedCols is the address of a window of columns of rounded rows.
func (b *backend) roundedCols(x kernels.Cols) *C.float {
	return (*C.float)(unsafe.Add(b.address(x.Buf), kernels.BF16.Size()*x.From))
}

// outerRows computes the gradient of a weight from rows of dy and x, one of which may be rounded.
func (b *backend) outerRows(dw kernels.Buffer, dy, x kernels.Cols, alpha float32, T int) {
	p := outer{dw: b.f32(dw), dy: b.cols(dy), x: b.cols(x), dwStride: x.N, dyStride: dy.Stride, xStride: x.Stride,
		n: dy.N, k: x.N, rows: T, alpha: C.float(alpha), slot: slotPacked, dyApart: apartOf(dy.Buf, dy.Stride), xApart: apartOf(x.Buf, x.Stride)}
	if p.dyApart > 0 {
		b.requireFloats(x)
		p.dy = b.roundedCols(dy)
	}
	if p.xApart > 0 {
		p.x = b.roundedCols(x)
	}
	b.outerTiles(&p)
}

// requireFloats panics on rounded rows, for products that cannot read them.
func (b *backend) requireFloats(all ...kernels.Cols) {
	for _, x := range all {
		if x.Buf.DType() == kernels.BF16 {
			b.requireRoundingTiles(0)
		}
	}
}

// requireRoundingTiles panics unless a product rounds its left-hand side in the order of tiles, as rounded rows require.
func (b *backend) requireRoundingTiles(pieces int) {
	if b.order != kernels.Tiles || pieces != 1 {
		panic("cpu: rounded rows are for products in the order of tiles that round what they multiply, one factor of two")
	}
}
