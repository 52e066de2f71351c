//go:build gpu

package cuda

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// Names of the products of src/linear_narrowed.h, and of the kernel that narrows rows, that is, rounds them to bf16.
const (
	narrowedLinearName = linearName + "_narrowed"
	narrowedGradXName  = gradXName + "_narrowed"
	stripsName         = "narrow_strips"
)

// Narrowed rows are stored in strips of 64 columns, each with all rows, rounded up to a multiple of the tile's height.
const (
	strip        = 64
	stripRows    = 128  // the maximum height of a tile
	narrowBlock  = 32   // rows of a strip that a block narrows
	narrowedRows = 4096 // rows that are narrowed at a time, which bounds their memory
)

// narrowedTiles are the tiles of src/linear_narrowed.h; a multiprocessor runs two at a time.
var narrowedTiles = []tile{
	{"128x128", 128, 128, 128, 64, 3},
	{"128x160", 128, 160, 128, 64, 2},
}

// narrowed is the kernel of an operation on narrowed rows in this tile.
func (t tile) narrowed(op string) productKernel {
	if op == gradXName {
		return t.kernel(narrowedGradXName, kernels.BF16Rounding)
	}
	return t.kernel(narrowedLinearName, kernels.BF16Rounding)
}

// narrowedShared is the shared memory of a narrowed kernel. It needs no padding, because swizzling avoids bank conflicts.
func (t tile) narrowedShared() int { return 2 * t.stages * (t.rows + t.columns) * t.depth }

// narrowedBytes is the memory for narrowed rows of inner elements: T of them, or as many as are narrowed at a time.
func narrowedBytes(T, inner int) int {
	return 2 * ceil(min(T, narrowedRows), stripRows) * stripRows * ceil(inner, strip) * strip
}

// narrows reports whether a product is faster if its rows are first narrowed to bf16, and in which tile. That needs operands aligned to
// what a thread copies and writes, and either few rows, or enough to fill tiles and multiprocessors. Of the two tiles for many rows it
// takes the one whose rounds of concurrent blocks take less time in total, and the square one at a tie. On an H100 that was faster by up to
// a quarter; docs/cuda.md has the times.
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
		takes := ceil(blocks, 2*p.processors) * t.columns // number of rounds of concurrent blocks, times the width of a tile
		if blocks >= p.processors && (!ok || takes < least) {
			best, least, ok = t, takes, true
		}
	}
	return best, ok
}

// strips are narrowed rows in memory: as many as tiles read, which includes rows of zeros after the last.
type strips struct {
	at   ptr
	rows int
}

// stripsIn lays out strips for T rows in room, padded to a multiple of the height of the tile.
func (t tile) stripsIn(room ptr, T int) strips {
	tileRows := max(t.rows, narrowBlock)
	return strips{room, ceil(T, tileRows) * tileRows}
}

// narrow rounds rows to bf16 and writes them in strips.
func (p *products) narrow(s *driver.Stream, to strips, x window, T int) error {
	err := s.Launch(p.functions[productKernel{op: stripsName}], dims{X: to.rows / narrowBlock, Y: ceil(x.n, strip)},
		dims{X: 256}, 0, address(to.at), i64(to.rows), address(x.at), i64(x.stride), i64(T), i64(x.n))
	if err != nil {
		return fmt.Errorf("narrowing rows: %w", err)
	}
	return nil
}

// multiplyNarrowed is multiply for narrowed rows.
func (p *products) multiplyNarrowed(s *driver.Stream, op string, t tile, out window, x strips, w weights, o epilogue, T int) error {
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

// narrowAndMultiply narrows rows into room and multiplies them, as many at a time as narrowedBytes allows.
func (p *products) narrowAndMultiply(s *driver.Stream, op string, t tile, out, x window, room ptr, w weights, o epilogue, T int) error {
	if T == 0 {
		return nil
	}
	stepRows := ceil(ceil(T, ceil(T, narrowedRows)), stripRows) * stripRows
	for row := 0; row < T; row += stepRows {
		rows := min(stepRows, T-row)
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
