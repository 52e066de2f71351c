package cpu

// #include "kernels.h"
import "C"

import (
	"github.com/seed-7879b91d/grpo/kernels"
)

var _ kernels.Sizer = (*backend)(nil)

// matrixSize is the memory of a matrix that is not compressed.
func matrixSize(t kernels.DType, rows, cols int) int {
	if t != kernels.F32 {
		cols = even(cols) // columns are stored in pairs
	}
	return panels(rows) * C.PANEL * cols * t.Size()
}

// MatrixSize is the memory of a matrix before and after Compress, if it compresses.
func (b *backend) MatrixSize(t kernels.DType, rows, cols int) (written, kept int) {
	written = matrixSize(t, rows, cols)
	if t == kernels.F32 || cols%C.GROUP != 0 {
		return written, written
	}
	n := panels(rows)
	return written, written/4*3 + n*(8+1+C.sizeof_grpo_patch)
}

// CacheSize is the memory of a cache.
func (b *backend) CacheSize(h kernels.Heads, t kernels.DType, layers, blocks int) int {
	return (&cache{heads: h, t: t, layers: layers, blocks: blocks}).Bytes()
}

// WorkSize is a bound on the size of the shared regions and of the workers' scratch space, which grow to what operations need.
// Each region is computed from the operation that needs it most.
func (b *backend) WorkSize(w kernels.Work) int {
	wide, group := padded(w.Dim), w.Q/w.KV
	inner := max(2*w.Intermediate, w.Width(), w.Hidden)
	asked := min(w.Rows, C.HEAD_ROWS)
	spans, path := max(w.Rows/max(w.Longest, 1), 1), blocksOf(w.Longest, C.KEYS)
	blocks, slots := blocksOf(w.Rows, C.KEYS)+spans, path
	entries := blocks
	if w.Trees > 0 { // each branch is one more span, whose first and last blocks are partial
		spans = max(spans, min(2*w.Trees, w.Rows))
		blocks, entries = blocksOf(w.Rows, C.KEYS)+2*spans, spans*path
		slots += min(w.Trees, w.Longest)
	}

	together, headWeights := b.headRoom(w, asked)
	packed, weights := max(min(packedBytes, 4*w.Rows*inner), 4*asked*w.Hidden), headWeights
	if b.order == kernels.Tiles {
		most := max(packedBytes, leftBytes(1, inner, C.PIECES)) // at least two tiles are packed
		packed = max(packed, min(most, leftBytes(w.Rows, inner, C.PIECES)), leftBytes(asked, w.Hidden, C.PIECES))
		if w.Low > 0 {
			packed += lowWindows * (leftBytes(w.Rows, w.Low, 1) + C.sizeof_grpo_gemm)
		}
	}
	if w.Whole { // gradients of weights pack columns, at most inner of them
		packed = max(packed, min(max(packedBytes, 4*w.Rows*int(b.ops.tile)), 4*w.Rows*inner))
		if b.order == kernels.Tiles {
			packed = max(packed, min(max(packedBytes, leftBytes(1, w.Rows, 1)), leftBytes(inner, w.Rows, 1)))
			weights = max(weights, leftBytes(C.HEAD_CHUNK, asked, 1))
		}
	}
	tiles := w.Rows*group/C.TILE_FORWARD + spans
	rows := max(spans*C.sizeof_grpo_span, (w.Rows+tiles)*C.sizeof_grpo_run, 4*asked*w.Hidden)
	index := max(8*w.Rows, tiles*C.sizeof_grpo_tile+entries*C.sizeof_grpo_block+spans*C.sizeof_int32_t,
		(w.Rows+tiles)*C.sizeof_grpo_bundle)
	logits := max(4*C.LOGIT_STRIDE*asked*together, 4*min(drawRows, w.Rows)*(panels(w.Vocab)+1)*C.PANEL)
	partial := max(asked*(chunks(w.Vocab)*C.sizeof_grpo_partial+4*partialNumbers), 8*blocksOf(w.Trained, C.RUN)) // the last is SumSquares
	shared := packed + index + rows + logits + partial

	packedRow := w.Dim + wide
	own := 4 * max(C.PANEL*(C.DEPTH+blockRows), 4*(path+8)+2*attendBytes(w.Heads)/4, 3*C.KEYS*w.Dim,
		C.PANEL*(C.DEPTH+scoreTiles*int(b.ops.tile))+C.LOGIT_STRIDE*scoreTiles*int(b.ops.tile))
	own = max(own, drawBytes(w.Vocab)+truncatedBytes(w.Vocab))
	if b.order == kernels.Tiles {
		own = max(own, int(C.grpo_tiles_scratch(blockTiles, manyPanels)),
			int(C.grpo_tiles_scratch(scoreTiles, C.TILE_PANELS))+4*C.LOGIT_STRIDE*scoreTiles*C.TILE)
	}
	if w.Gradients {
		packedRow += w.Dim
		shared += 4*asked*panels(w.Hidden)*C.PANEL + weights // the mean under the softmax, and its weights
		tile := gradTile(w.Dim, false)
		if b.order == kernels.Tiles {
			tile = max(tile, gradTile(w.Dim, true))
		}
		own = max(own, 4*(tile+2*C.KEYS*slots*wide))
	}
	shared += blocks * w.KV * 4 * C.KEYS * packedRow
	return shared + b.threads()*workerBytes(own)
}

// headRoom is how many chunks the head processes together for a number of rows, and the size of their packed weights.
func (b *backend) headRoom(w kernels.Work, asked int) (together, weights int) {
	weights = 4 * asked * C.HEAD_CHUNK
	if b.order != kernels.Tiles || !w.Gradients {
		return 1, weights
	}
	together = min(C.HEAD_TOGETHER, chunks(w.Vocab))
	one, several := leftBytes(asked, C.HEAD_CHUNK, 1), leftBytes(asked, C.HEAD_CHUNK, C.PIECES)
	if w.Whole { // then products have one piece, or are in series
		return together, max(weights, together*one)
	}
	return together, max(weights, together*one, several)
}
