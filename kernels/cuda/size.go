//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// The driver allocates memory in pages, and allocations of `large` bytes or more start at a page of their own.
const (
	page  = 2 << 20
	large = 1 << 20
)

// allocated is the memory that the driver uses for an allocation.
func allocated(bytes int) int {
	if bytes < large {
		return ceil(bytes, 512) * 512
	}
	return ceil(bytes, page) * page
}

// MatrixSize is the memory of a matrix, before and after Compress, which changes nothing.
func (b *Backend) MatrixSize(t kernels.DType, rows, cols int) (written, kept int) {
	n := allocated(rows * cols * t.Size())
	return n, n
}

// CacheSize is the memory of a cache.
func (b *Backend) CacheSize(h kernels.Heads, t kernels.DType, layers, blocks int) int {
	return layers * blocks * (&cache{heads: h, t: t}).blockBytes()
}

// WorkSize is the maximum scratch memory of an operation; all operations share the same scratch memory.
func (b *Backend) WorkSize(w kernels.Work) int {
	T, chunks, rows := w.Rows, chunksOf(w.Vocab), min(w.Rows, headRows)
	most := max(
		8*ceil(w.Trained, squaresChunk), // SumSquares
		4*T*cacheRow(w.Heads),           // Attention, with keys and values in f32
		8*T+2*4*rows*w.Hidden+4*rows*headVocabulary+(partialBytes*chunks+12)*rows+b.narrowedHead(w), // LogProb
		min(T, drawRows)*(4*(w.Vocab+3)+(2*partialBytes+8)*chunks+8)+b.narrowedDraw(w),              // Draw, with a mask
		b.narrowedRows(linearName, w),
		b.decodingParts(w),
	)
	if w.Gradients {
		most = max(most, 4*ceil(T, gradientChain)*b.gradientTiles(), // LinearGradW
			4*T*(cacheRow(w.Heads)+2*w.Q*paddedHead(w.Heads)+w.Q+1), // AttentionGrad, in f32
			4*(T*(w.Q+2*w.KV)+ceil(T, headChunk)*2*w.Dim),           // QKNormRopeGradW
			b.narrowedRows(gradXName, w))
	}
	if w.Whole {
		most = max(most, 4*(T+ceil(T, rowChunk)*max(w.Hidden, 2*w.Intermediate, w.Width()))) // RMSNormGradW, BiasGrad
	}
	return allocated(most + 16*256) // parts are aligned to 256 bytes
}

// gradientTiles bounds the number of elements of a gradient of weights that uses split-K: it has fewer tiles than the card has
// multiprocessors.
func (b *Backend) gradientTiles() int {
	return b.device.Card().Processors * gradWTiles[len(gradWTiles)-1].rows * gradWTiles[len(gradWTiles)-1].columns
}

// decodingParts is the scratch memory of PagedAttention with few rows: a partial result for each part of the positions.
func (b *Backend) decodingParts(w kernels.Work) int {
	tileRows := tileForHead(attentionTiles[kernels.BF16].few, w.Dim).rows
	for _, tiles := range attentionTiles {
		tileRows = max(tileRows, tileForHead(tiles.few, w.Dim).rows)
	}
	rows := ceil(tileRows*w.Sequences, w.Q/w.KV)
	return 4 * rows * w.Q * ceil(w.Longest+cacheBlock, attentionPart) * (4 + w.Dim)
}

// narrowedRows is the scratch memory of Linear or its gradient for narrowed rows: the maximum over the matrices of a layer, and over
// steps with all rows and with few, because fewer rows may be narrowed where more are not.
func (b *Backend) narrowedRows(op string, w kernels.Work) (most int) {
	for _, m := range [][2]int{{w.Width(), w.Hidden}, {w.Hidden, w.OutWidth()}, {2 * w.Intermediate, w.Hidden}, {w.Hidden, w.Intermediate}} {
		outer, inner := m[0], m[1]
		if op == gradXName {
			outer, inner = inner, outer
		}
		for _, T := range []int{w.Rows, min(w.Rows, stripRows)} {
			if b.narrows(op, T, m[0], m[1], outer) {
				most = max(most, narrowedBytes(T, inner))
			}
		}
	}
	return most
}

// narrowedHead is the scratch memory of LogProb for the narrowed rows of a round, and for the narrowed weights made from their logits: the
// maximum over rounds with all rows and with few.
func (b *Backend) narrowedHead(w kernels.Work) (most int) {
	n := min(w.Vocab, headVocabulary)
	for _, T := range []int{min(w.Rows, headRows), min(w.Rows, stripRows)} {
		if b.narrows(linearName, T, n, w.Hidden, n) {
			most = max(most, narrowedBytes(T, w.Hidden)+narrowedBytes(T, n))
		}
	}
	return most
}

// narrowedDraw is the scratch memory of Draw for its narrowed rows.
func (b *Backend) narrowedDraw(w kernels.Work) int {
	rows := min(w.Rows, drawRows)
	if !b.narrows(linearName, rows, w.Vocab, w.Hidden, w.Vocab) {
		return 0
	}
	return narrowedBytes(rows, w.Hidden)
}

// narrows reports whether a product with a matrix [n, k] in bf16, with the given number of result columns, narrows its rows.
func (b *Backend) narrows(op string, T, n, k, columns int) bool {
	_, ok := b.products.narrows(op, window{0, columns, columns}, weights{dtype: kernels.BF16Rounding, stride: k, n: n, k: k}, T)
	return ok
}
