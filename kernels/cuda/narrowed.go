//go:build gpu

package cuda

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// The names of what src/linear_narrowed.h has, and of the kernel that narrows.
const (
	narrowedLinearName = linearName + "_narrowed"
	narrowedGradXName  = gradXName + "_narrowed"
	stripsName         = "narrow_strips"
)

// Narrowed rows lie in strips of so many columns, each with all rows, rounded up to a multiple of the tile's height.
const (
	strip        = 64
	stripRows    = 128  // the greatest height of a tile
	narrowBlock  = 32   // rows of a strip that a block narrows
	narrowedRows = 4096 // at a time, which bounds the memory for them
)

// narrowedTiles are those of src/linear_narrowed.h, of which a multiprocessor has two at a time.
var narrowedTiles = []tile{
	{"128x128", 128, 128, 128, 64, 3},
	{"128x160", 128, 160, 128, 64, 2},
}

// narrowed is the kernel of an operation in such a tile.
func (t tile) narrowed(op string) product {
	if op == gradXName {
		return t.kernel(narrowedGradXName, kernels.BF16Rounding)
	}
	return t.kernel(narrowedLinearName, kernels.BF16Rounding)
}

// narrowedShared is its shared memory: no number is beside another than in memory, since all are swizzled.
func (t tile) narrowedShared() int { return 2 * t.stages * (t.high + t.broad) * t.deep }

// narrowedBytes is the memory for rows that are narrowed at a time, of so many numbers.
func narrowedBytes(T, inner int) int {
	return 2 * ceil(min(T, narrowedRows), stripRows) * stripRows * ceil(inner, strip) * strip
}

// narrows says whether a product is faster by rows that are narrowed before, and in which tile then: where rows are few, or there are rows
// for a tile and tiles for the card, and all is aligned to what a thread copies and writes. Of the two tiles for many rows, the one whose
// rounds are shorter in all was the faster on an H100, by up to a quarter, and where they are equal the square one; docs/cuda.md has the
// times.
func (p *products) narrows(op string, out window, w weights, T int) (best tile, ok bool) {
	outer := w.n
	if op == gradXName {
		outer = w.k
	}
	if w.dtype != kernels.BF16Rounding || w.codes.values != 0 || w.at%16 != 0 || w.stride%8 != 0 || outer%8 != 0 || out.at%8 != 0 ||
		out.stride%2 != 0 {
		return tile{}, false
	}
	if op == linearName && T <= stripRows {
		if t, ok := p.narrowsFew(w, T); ok {
			return t, true
		}
	}
	if T <= stripRows/2 {
		return tile{}, false
	}
	least := 0
	for _, t := range narrowedTiles {
		blocks := t.blocks(min(T, narrowedRows), outer)
		takes := ceil(blocks, 2*p.processors) * t.broad // rounds of all blocks that a card has at a time, by the results of one
		if blocks >= p.processors && (!ok || takes < least) {
			best, least, ok = t, takes, true
		}
	}
	return best, ok
}

// strips are narrowed rows: so many in each, of which the last may be zeros.
type strips struct {
	at   ptr
	rows int
}

// stripsIn are those of T rows, for a product in that tile.
func (t tile) stripsIn(room ptr, T int) strips {
	high := max(t.high, narrowBlock)
	return strips{room, ceil(T, high) * high}
}

// narrow rounds rows to bf16, in strips.
func (p *products) narrow(s *driver.Stream, to strips, x window, T int) error {
	err := s.Launch(p.functions[product{op: stripsName}], dims{X: to.rows / narrowBlock, Y: ceil(x.n, strip)},
		dims{X: 256}, 0, address(to.at), i64(to.rows), address(x.at), i64(x.stride), i64(T), i64(x.n))
	if err != nil {
		return fmt.Errorf("narrowing rows: %w", err)
	}
	return nil
}

// multiplyNarrowed is multiply for rows that are narrowed.
func (p *products) multiplyNarrowed(s *driver.Stream, op string, t tile, out window, x strips, w weights, o written, T int) error {
	outer, inner, accumulate := w.n, w.k, 0
	if op == gradXName {
		outer, inner = inner, outer
	}
	if o.accumulate {
		accumulate = 1
	}
	return s.Launch(p.functions[t.narrowed(op)], dims{X: t.blocks(T, outer)}, dims{X: t.threads}, t.narrowedShared(),
		address(out.at), i64(out.stride), address(x.at), i64(x.rows), address(w.at), i64(w.stride), address(o.bias),
		f32(o.alpha), i64(accumulate), i64(T), i64(outer), i64(inner))
}

// throughStrips narrows rows and multiplies them, as many at a time as a room of narrowedBytes holds.
func (p *products) throughStrips(s *driver.Stream, op string, t tile, out, x window, room ptr, w weights, o written, T int) error {
	if T == 0 {
		return nil
	}
	high := ceil(ceil(T, ceil(T, narrowedRows)), stripRows) * stripRows
	for row := 0; row < T; row += high {
		rows := min(high, T-row)
		from, to := x, out
		from.at += ptr(4 * row * x.stride)
		to.at += ptr(4 * row * out.stride)
		narrowed := t.stripsIn(room, rows)
		if err := p.narrow(s, narrowed, from, rows); err != nil {
			return err
		}
		if err := p.multiplyNarrowed(s, op, t, to, narrowed, w, o, rows); err != nil {
			return err
		}
	}
	return nil
}
