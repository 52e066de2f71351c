package cpu

// #include "kernels.h"
import "C"

import (
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

var _ kernels.LowRanker = (*backend)(nil)

// LinearLowRank does the products in the order of tiles together: what the linear and the adapter multiply is packed once, and what the
// adapter adds is there before a sum is written.
func (b *backend) LinearLowRank(out, z, x kernels.Cols, w kernels.Matrix, bias kernels.Buffer, l *kernels.LowRank, T int) bool {
	if !b.addsLowRank(w, l) {
		return false
	}
	defer b.release()
	for r := range b.packedRounds(x, T) {
		g := r.product(C.B_OUTPUTS, l.A, r.packed, l.Scale)
		r.run(z, &g)
		g = r.product(C.B_OUTPUTS, w, r.packed, 1)
		if bias != nil {
			g.bias = b.f32(bias)
		}
		added := r.adds(&g, len(l.B))
		for i, at := range l.Windows {
			added[i] = r.product(C.B_OUTPUTS, l.B[i], r.pack(slotLow+i, l.Between(z, i)), 1)
			added[i].cols, added[i].added_panel = C.int64_t(at.N), C.int64_t(at.From/C.PANEL)
		}
		r.run(out, &g)
	}
	return true
}

// LinearLowRankGradX likewise.
func (b *backend) LinearLowRankGradX(dx, dz, dy kernels.Cols, w kernels.Matrix, l *kernels.LowRank, T int) bool {
	if !b.addsLowRank(w, l) {
		return false
	}
	defer b.release()
	for r := range b.packedRounds(dy, T) {
		for i, at := range l.Windows {
			g := r.product(C.B_INPUTS, l.B[i], r.packed.columns(at), 1)
			r.run(l.Between(dz, i), &g)
		}
		g := r.product(C.B_INPUTS, w, r.packed, 1)
		g.gradual = 1
		added := r.adds(&g, 1)
		added[0] = r.product(C.B_INPUTS, l.A, r.pack(slotLow, dz), l.Scale)
		added[0].cols = C.int64_t(dx.N)
		r.run(dx, &g)
	}
	return true
}

// addsLowRank tells whether such a linear is done together: where all of it is multiplied with numbers rounded to bf16, in whole panels,
// and what is added has one depth.
func (b *backend) addsLowRank(w kernels.Matrix, l *kernels.LowRank) bool {
	if len(l.B) > lowWindows || l.A.Rows() > C.TILE_DEPTH || !b.oneTile(w) || !b.oneTile(l.A) {
		return false
	}
	for i, at := range l.Windows {
		if at.From%C.PANEL != 0 || at.N%C.PANEL != 0 || !b.oneTile(l.B[i]) {
			return false
		}
	}
	return true
}

// oneTile tells whether what is multiplied with a matrix is one number of bf16, in the order of tiles.
func (b *backend) oneTile(w kernels.Matrix) bool {
	m, ok := w.(*matrix)
	return ok && !m.whole && b.order == kernels.Tiles && m.t == kernels.BF16Rounding
}

// A leftTiles is a packed left-hand side, or some columns of it.
type leftTiles struct {
	p     *C.float
	width int // inputs of a packed row
	n     int // of which so many are meant
}

// columns are some of them, in whole steps.
func (l leftTiles) columns(w kernels.Window) leftTiles {
	return leftTiles{at(l.p, w.From/C.TILE_INPUTS*C.TURN_BYTES/4), l.width, w.N}
}

// packedRows are the rows of a round, as many as the packed copy may hold.
type packedRows struct {
	b         *backend
	row, rows int
	packed    leftTiles
}

// packedRounds goes through the rows of x.
func (b *backend) packedRounds(x kernels.Cols, T int) func(yield func(packedRows) bool) {
	return func(yield func(packedRows) bool) {
		most := leftRows(T, x.N, 1)
		for row := 0; row < T; row += most {
			r := packedRows{b: b, row: row, rows: min(most, T-row)}
			r.packed = r.pack(slotPacked, x)
			if !yield(r) {
				return
			}
		}
	}
}

// from is where the rows of the round begin.
func (r packedRows) from(x kernels.Cols) *C.float { return at(r.b.cols(x), r.row*x.Stride) }

func (r packedRows) pack(slot int, x kernels.Cols) leftTiles {
	g := C.grpo_gemm{rows: C.int64_t(r.rows), inner: C.int64_t(x.N), pieces: 1}
	return leftTiles{r.b.packTiles(r.b.ops.pack_tiles, slot, r.from(x), x.Stride, &g), x.N, x.N}
}

// product is that of the packed rows with a matrix.
func (r packedRows) product(kind C.int32_t, w kernels.Matrix, left leftTiles, alpha float32) C.grpo_gemm {
	return C.grpo_gemm{b_kind: kind, m: r.b.matrix(w), a: left.p, a_stride: C.int64_t(left.width), inner: C.int64_t(left.n),
		rows: C.int64_t(r.rows), pieces: 1, alpha: C.float(alpha)}
}

// adds makes room for the products that are added to one.
func (r packedRows) adds(g *C.grpo_gemm, n int) []C.grpo_gemm {
	g.added = (*C.grpo_gemm)(r.b.shared(slotAdded, lowWindows*C.sizeof_grpo_gemm))
	g.added_count = C.int64_t(n)
	return unsafe.Slice((*C.grpo_gemm)(unsafe.Pointer(g.added)), n)
}

// run does a product into some columns of the round's rows.
func (r packedRows) run(out kernels.Cols, g *C.grpo_gemm) {
	g.cols, g.out, g.out_stride = C.int64_t(out.N), r.from(out), C.int64_t(out.Stride)
	g.stream = flag(4*r.rows*out.N >= streamedBytes)
	r.b.tilesGemm(g)
}
