package cpu

// #include "kernels.h"
import "C"

import (
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

var _ kernels.RowRounder = (*backend)(nil)

// A rounded row is followed by so many numbers of room: rows a power of two apart share few sets of the caches.
const roundedRoom = C.TILE_INPUTS

// RoundedLen: tiles are read whole, and two at a time.
func (b *backend) RoundedLen(width, T int) int {
	if width%C.TILE_INPUTS != 0 {
		return 0
	}
	return 2 * C.TILE * blocksOf(T, 2*C.TILE) * (width + roundedRoom)
}

// apartOf is how many bytes rounded rows of that width are apart; 0 if they are floats.
func apartOf(x kernels.Buffer, width int) C.int64_t {
	if x.DType() != kernels.BF16 {
		return 0
	}
	return C.int64_t(kernels.BF16.Size() * (width + roundedRoom))
}

// made is the address of rows of that width that an operation makes, and how many bytes they are apart if they are rounded. A row is made
// in scratch then, beside the numbers that are there anyway.
func (b *backend) made(out kernels.Buffer, width, beside int) (*C.float, C.int64_t) {
	apart := apartOf(out, width)
	if apart > 0 || beside > 0 {
		b.scratch(4 * (width + beside))
	}
	return (*C.float)(b.address(out)), apart
}

// madeAround is the same of T rows that go around the caches if they are many, and whether they do.
func (b *backend) madeAround(out kernels.Buffer, width, beside, T int) (p *C.float, apart, stream C.int64_t) {
	p, apart = b.made(out, width, beside)
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

// leftRounded has rows that are rounded for the left-hand side of g, as they lie. It says whether they are.
func (b *backend) leftRounded(g *C.grpo_gemm, x kernels.Cols, pieces int) bool {
	g.a_apart = apartOf(x.Buf, x.Stride)
	if g.a_apart == 0 {
		return false
	}
	b.wantsTiles(pieces)
	g.a, g.pieces, g.a_kind = b.roundedCols(x), 1, C.A_ROWS
	return true
}

// roundedCols is the address of columns of rounded rows.
func (b *backend) roundedCols(x kernels.Cols) *C.float {
	return (*C.float)(unsafe.Add(b.address(x.Buf), kernels.BF16.Size()*x.From))
}

// outerRows is the gradient to a weight of rows of which dy or x may be rounded.
func (b *backend) outerRows(dw kernels.Buffer, dy, x kernels.Cols, alpha float32, T int) {
	p := outer{dw: b.f32(dw), dy: b.cols(dy), x: b.cols(x), dwStride: x.N, dyStride: dy.Stride, xStride: x.Stride,
		n: dy.N, k: x.N, rows: T, alpha: C.float(alpha), slot: slotPacked, dyApart: apartOf(dy.Buf, dy.Stride), xApart: apartOf(x.Buf, x.Stride)}
	if p.dyApart > 0 {
		b.wantsFloats(x)
		p.dy = b.roundedCols(dy)
	}
	if p.xApart > 0 {
		p.x = b.roundedCols(x)
	}
	b.outerTiles(&p)
}

// wantsFloats refuses rounded rows where there is no product that reads them.
func (b *backend) wantsFloats(all ...kernels.Cols) {
	for _, x := range all {
		if x.Buf.DType() == kernels.BF16 {
			b.wantsTiles(0)
		}
	}
}

// wantsTiles refuses rounded rows for a product that would not round them.
func (b *backend) wantsTiles(pieces int) {
	if b.order != kernels.Tiles || pieces != 1 {
		panic("cpu: rounded rows are for products in the order of tiles that round what they multiply, one factor of two")
	}
}
