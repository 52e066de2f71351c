package cpu

// #include "kernels.h"
import "C"

import (
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

var _ kernels.LowRanker = (*backend)(nil)

// LinearLowRank computes the products of linear and adapter together in the order of tiles: x is packed once for both, and the adapter's
// part is added before a sum is written. If the adapter is in series, z is a product of its own.
func (b *backend) LinearLowRank(out, z, x kernels.Cols, w kernels.Matrix, bias kernels.Buffer, l *kernels.LowRank, T int) bool {
	pieces, low := b.addsLowRank(w, bias, l)
	if pieces == 0 {
		return false
	}
	if low == 0 {
		b.Linear(z, x, l.A, kernels.LinearOpt{Alpha: l.Scale}, T)
	}
	defer b.release()
	for r := range b.packedRounds(x, T, pieces) {
		if low > 0 {
			g := r.product(C.B_OUTPUTS, l.A, r.packed, l.Scale)
			r.run(z, &g)
		}
		g := r.product(C.B_OUTPUTS, w, r.packed, 1)
		g.gradual = flag(low == 0)
		if bias != nil {
			g.bias = b.f32(bias)
		}
		added := r.adds(&g, len(l.B))
		for i, at := range l.Windows {
			added[i] = r.product(C.B_OUTPUTS, l.B[i], r.low(i, l.Between(z, i), low), 1)
			added[i].cols, added[i].added_panel, added[i].accumulate = C.int64_t(at.N), C.int64_t(at.From/C.PANEL), 1
		}
		r.run(out, &g)
	}
	return true
}

// LinearLowRankGradX does the same for the gradient to x.
func (b *backend) LinearLowRankGradX(dx, dz, dy kernels.Cols, w kernels.Matrix, l *kernels.LowRank, T int) bool {
	pieces, low := b.addsLowRank(w, nil, l)
	if pieces == 0 {
		return false
	}
	if low == 0 {
		kernels.LowRankGradZ(b, dz, dy, l, T)
	}
	defer b.release()
	for r := range b.packedRounds(dy, T, pieces) {
		for i := 0; low > 0 && i < len(l.B); i++ {
			g := r.product(C.B_INPUTS, l.B[i], r.packed.columns(l.Windows[i]), 1)
			r.run(l.Between(dz, i), &g)
		}
		g := r.product(C.B_INPUTS, w, r.packed, 1)
		g.gradual = 1
		added := r.adds(&g, 1)
		added[0] = r.product(C.B_INPUTS, l.A, r.low(0, dz, low), l.Scale)
		added[0].cols = C.int64_t(dx.N)
		r.run(dx, &g)
	}
	return true
}

// addsLowRank returns the number of pieces of the numbers that are multiplied with the linear, and with its adapter, where 0 means in
// series. The first is 0 if the two cannot be computed together: if the windows are not whole panels, if the rank takes more than one
// depth, or if the adapter is in series and some columns get only a bias, since there a subnormal number counts as zero.
func (b *backend) addsLowRank(w kernels.Matrix, bias kernels.Buffer, l *kernels.LowRank) (pieces, low int) {
	pieces, low = b.piecesOf(w), b.piecesOf(l.A)
	together := low == 0 && pieces > 0 && l.A.Rows() <= C.TILE_DEPTH/2 || low == 1 && pieces == 1 && l.A.Rows() <= C.TILE_DEPTH
	rest := w.Rows()
	for i, at := range l.Windows {
		rest -= at.N
		together = together && at.From%C.PANEL == 0 && at.N%C.PANEL == 0 && b.piecesOf(l.B[i]) == low
	}
	if !together || len(l.B) > lowWindows || low == 0 && bias != nil && rest > 0 {
		return 0, 0
	}
	return pieces, low
}

// piecesOf is the number of pieces of the numbers that are multiplied with a matrix in the order of tiles; 0 if the product is in series,
// -1 if it is in integers, or the backend has another order.
func (b *backend) piecesOf(w kernels.Matrix) int {
	m, ok := w.(*matrix)
	switch {
	case !ok || m.integers || b.order != kernels.Tiles:
		return -1
	case m.t == kernels.F32:
		return 0
	case m.t == kernels.BF16Rounding:
		return 1
	}
	return C.PIECES
}

// leftTiles is a packed left-hand side, or some columns of it.
type leftTiles struct {
	p      *C.float
	pieces int       // 0: it is not packed
	width  int       // inputs of a packed row
	n      int       // how many of them are used
	apart  C.int64_t // the stride in bytes of rounded rows, which are not packed; 0: others
}

// columns are the columns of a window, which begins at a whole step.
func (l leftTiles) columns(w kernels.Window) leftTiles {
	step := l.pieces * C.TURN_BYTES
	if l.apart > 0 {
		step = C.TILE_BYTES / C.TILE
	}
	l.p, l.n = at(l.p, w.From/C.TILE_INPUTS*step/4), w.N
	return l
}

// packedRows are the rows of one round: at most as many as the packed copy may hold.
type packedRows struct {
	b         *backend
	row, rows int
	packed    leftTiles
}

// packedRounds iterates over the rows of x in rounds.
func (b *backend) packedRounds(x kernels.Cols, T, pieces int) func(yield func(packedRows) bool) {
	return func(yield func(packedRows) bool) {
		if g := (C.grpo_gemm{}); b.leftRounded(&g, x, pieces) {
			yield(packedRows{b: b, rows: T, packed: leftTiles{g.a, 1, x.Stride, x.N, g.a_apart}})
			return
		}
		most := leftRows(T, x.N, pieces)
		for row := 0; row < T; row += most {
			r := packedRows{b: b, row: row, rows: min(most, T-row)}
			r.packed = r.pack(slotPacked, x, pieces)
			if !yield(r) {
				return
			}
		}
	}
}

// from is the address of the first row of the round in x.
func (r packedRows) from(x kernels.Cols) *C.float { return at(r.b.cols(x), r.row*x.Stride) }

func (r packedRows) pack(slot int, x kernels.Cols, pieces int) leftTiles {
	g := C.grpo_gemm{rows: C.int64_t(r.rows), inner: C.int64_t(x.N), pieces: C.int32_t(pieces)}
	return leftTiles{r.b.packTiles(r.b.ops.pack_tiles, slot, r.from(x), x.Stride, &g), pieces, x.N, x.N, 0}
}

// low is the left-hand side of the i-th product that is added to another one.
func (r packedRows) low(i int, z kernels.Cols, pieces int) leftTiles {
	if pieces == 0 {
		return leftTiles{r.from(z), 0, z.Stride, z.N, 0}
	}
	return r.pack(slotLow+i, z, pieces)
}

// product is the product of a left-hand side with a matrix.
func (r packedRows) product(kind C.int32_t, w kernels.Matrix, left leftTiles, alpha float32) C.grpo_gemm {
	return C.grpo_gemm{b_kind: kind, m: r.b.matrix(w), a_kind: C.A_ROWS, a: left.p, a_stride: C.int64_t(left.width), a_apart: left.apart,
		inner: C.int64_t(left.n), rows: C.int64_t(r.rows), pieces: C.int32_t(left.pieces), alpha: C.float(alpha)}
}

// adds makes room for the n products that are added to g.
func (r packedRows) adds(g *C.grpo_gemm, n int) []C.grpo_gemm {
	g.added = (*C.grpo_gemm)(r.b.shared(slotAdded, lowWindows*C.sizeof_grpo_gemm))
	g.added_count = C.int64_t(n)
	return unsafe.Slice((*C.grpo_gemm)(unsafe.Pointer(g.added)), n)
}

// run computes a product into columns of the round's rows.
func (r packedRows) run(out kernels.Cols, g *C.grpo_gemm) {
	g.cols, g.out, g.out_stride = C.int64_t(out.N), r.from(out), C.int64_t(out.Stride)
	g.stream = flag(streams(r.rows * out.N))
	r.b.tilesGemm(g)
}
