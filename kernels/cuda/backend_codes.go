//go:build gpu

package cuda

import (
	"math"
	"math/bits"
	"runtime"

	"github.com/seed-7879b91d/grpo/kernels"
)

var _ kernels.Quantiser = (*Backend)(nil)

// codeColumns is the minimum number of columns per scale: products read that many columns at a time (src/linear_codes.h).
const codeColumns = 16

// codes describe a 4-bit matrix in addition to its codes; src/codes.h describes the layout.
type codes struct {
	pitch          int // bytes per row of codes
	scales, values ptr // values is 0 for a matrix that is not quantised
	groups, shift  int // a row has groups scales, each for 2^shift columns
}

// bytes is the size of the codes and scales of the given rows, and of the 16 values.
func (c codes) bytes(rows int) int { return rows*c.pitch + c.ofScales(rows) + 4*16 }

func (c codes) ofScales(rows int) int { return 4 * rows * c.groups }

// codesOf reports false if the parts cannot form one matrix of codes: their values or blocks differ, fewer than codeColumns columns share
// a scale, or a value is not finite.
func codesOf(parts []kernels.Quantised) (c codes, rows int, ok bool) {
	first := &parts[0]
	for _, p := range parts {
		if p.Values != first.Values || p.Block != first.Block {
			return c, 0, false
		}
		rows += p.Rows
	}
	for _, v := range first.Values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) { // tiles read the first value times 0 past the end of a row
			return c, 0, false
		}
	}
	c.shift = min(bits.TrailingZeros(uint(first.Cols)), bits.TrailingZeros(uint(first.Block)))
	c.pitch, c.groups = ceil(first.Cols, 32)*16, first.Cols>>c.shift
	return c, rows, 1<<c.shift >= codeColumns
}

// QuantisedSize is the memory of the parts as one matrix; 0 if they cannot form one.
func (b *Backend) QuantisedSize(parts []kernels.Quantised) int {
	c, rows, ok := codesOf(parts)
	if !ok {
		return 0
	}
	return allocated(c.bytes(rows))
}

// NewQuantised makes one matrix of the codes of all parts, which products dequantise as they read them. It returns nil if the parts
// cannot form one.
func (b *Backend) NewQuantised(t kernels.DType, parts []kernels.Quantised) (kernels.Matrix, error) {
	c, rows, ok := codesOf(parts)
	if !ok {
		return nil, nil
	}
	memory, err := b.memory.take(b, int64(c.bytes(rows)))
	if err != nil {
		return nil, err
	}
	c.scales = memory.At + ptr(rows*c.pitch)
	c.values = c.scales + ptr(c.ofScales(rows))
	m := &matrix{t: t, rows: rows, cols: parts[0].Cols, memory: memory, compressed: true, codes: c}
	runtime.AddCleanup(m, b.memory.orphan, memory)
	b.note(b.moves.Upload(c.values, raw(parts[0].Values[:])))
	row := 0
	for i := range parts {
		b.loadCodes(m, row, &parts[i])
		row += parts[i].Rows
	}
	return m, nil
}

// loadCodes uploads codes and scales to the rows of m from `row` on. If the layout on the card differs, it rearranges a piece at a time.
func (b *Backend) loadCodes(m *matrix, row int, q *kernels.Quantised) {
	c := m.codes
	at, scales := m.memory.At+ptr(row*c.pitch), c.scales+ptr(c.ofScales(row))
	if 2*c.pitch == m.cols {
		b.note(b.moves.Upload(at, q.Codes))
	} else {
		piece := make([]byte, min(q.Rows, max(1, loadNumbers/c.pitch))*c.pitch)
		for first := 0; first < q.Rows; first += len(piece) / c.pitch {
			n := min(len(piece)/c.pitch, q.Rows-first)
			for r := range n {
				copy(piece[r*c.pitch:][:m.cols/2], q.Codes[(first+r)*m.cols/2:])
			}
			b.note(b.moves.Upload(at+ptr(first*c.pitch), piece[:n*c.pitch]))
		}
	}
	if 1<<c.shift == q.Block {
		b.note(b.moves.Upload(scales, raw(q.Scales)))
		return
	}
	piece, all := make([]float32, min(loadNumbers, q.Rows*c.groups)), q.Rows*c.groups
	for first := 0; first < all; first += len(piece) {
		n := min(len(piece), all-first)
		for i := range n {
			piece[i] = q.Scales[(first+i)<<c.shift/q.Block]
		}
		b.note(b.moves.Upload(scales+ptr(4*first), raw(piece[:n])))
	}
}

// gatherCodes dequantises the given rows of a matrix of codes to f32, or all rows.
func (b *Backend) gatherCodes(out arg, m *matrix, rows arg, n int) {
	c := m.codes
	b.launch("gather_codes", dims{X: n}, out, address(m.memory.At), address(c.scales), i64(c.shift), address(c.values), rows, i64(m.cols))
}
