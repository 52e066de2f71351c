//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// A driver deals memory out in pages: what is large begins at one of its own.
const (
	page  = 2 << 20
	large = 1 << 20
)

// dealt is what a driver takes for so many bytes.
func dealt(bytes int) int {
	if bytes < large {
		return ceil(bytes, 512) * 512
	}
	return ceil(bytes, page) * page
}

// MatrixSize is the memory of a matrix, which Compress leaves as it is.
func (b *Backend) MatrixSize(t kernels.DType, rows, cols int) (written, kept int) {
	n := dealt(rows * cols * t.Size())
	return n, n
}

// CacheSize is the memory of a cache.
func (b *Backend) CacheSize(h kernels.Heads, t kernels.DType, layers, blocks int) int {
	return layers * blocks * (&cache{heads: h, t: t}).blockBytes()
}

// WorkSize is the most that an operation keeps between two of its launches: they all have the same memory for that.
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
			4*T*(cacheRow(w.Heads)+2*w.Q*kept(w.Heads)+w.Q+1), // AttentionGrad, in f32
			4*(T*(w.Q+2*w.KV)+ceil(T, headChunk)*2*w.Dim),     // QKNormRopeGradW
			b.narrowedRows(gradXName, w))
	}
	if w.Whole {
		most = max(most, 4*(T+ceil(T, rowChunk)*max(w.Hidden, 2*w.Intermediate, w.Width()))) // RMSNormGradW, BiasGrad
	}
	return dealt(most + 16*256) // parts begin at multiples of 256
}

// gradientTiles is how many numbers of a gradient there are at the most where its chains have memory of their own: fewer tiles than
// processors.
func (b *Backend) gradientTiles() int {
	return b.device.Card().Processors * gradWTiles[len(gradWTiles)-1].high * gradWTiles[len(gradWTiles)-1].broad
}

// decodingParts is what PagedAttention takes where rows are few: a sum for each part of the positions.
func (b *Backend) decodingParts(w kernels.Work) int {
	high := fitting(attentionTiles[kernels.BF16].few, w.Dim).high
	for _, tiles := range attentionTiles {
		high = max(high, fitting(tiles.few, w.Dim).high)
	}
	rows := ceil(high*w.Sequences, w.Q/w.KV)
	return 4 * rows * w.Q * ceil(w.Longest+cacheBlock, attentionPart) * (4 + w.Dim)
}

// narrowedRows is what Linear or its gradient takes for rows in bf16, by the largest of a layer's matrices for which it narrows any: as
// many rows as there may be, or the few of a step of decoding.
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

// narrowedHead is what LogProb takes for the rows of a round in bf16, and for the weights that their logits become: of as many rows as
// there may be, or of few.
func (b *Backend) narrowedHead(w kernels.Work) (most int) {
	n := min(w.Vocab, headVocabulary)
	for _, T := range []int{min(w.Rows, headRows), min(w.Rows, stripRows)} {
		if b.narrows(linearName, T, n, w.Hidden, n) {
			most = max(most, narrowedBytes(T, w.Hidden)+narrowedBytes(T, n))
		}
	}
	return most
}

// narrowedDraw is what Draw takes for its rows in bf16.
func (b *Backend) narrowedDraw(w kernels.Work) int {
	rows := min(w.Rows, drawRows)
	if !b.narrows(linearName, rows, w.Vocab, w.Hidden, w.Vocab) {
		return 0
	}
	return narrowedBytes(rows, w.Hidden)
}

// narrows says whether a product with a matrix [n, k] in bf16, for results of so many columns, is one of narrowed rows.
func (b *Backend) narrows(op string, T, n, k, columns int) bool {
	_, ok := b.products.narrows(op, window{0, columns, columns}, weights{dtype: kernels.BF16Rounding, stride: k, n: n, k: k}, T)
	return ok
}
