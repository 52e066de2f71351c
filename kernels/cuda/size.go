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
		4*T*cacheRow(w.Heads), // Attention, with keys and values in f32
		8*T+2*4*rows*w.Hidden+4*rows*headVocabulary+(partialBytes*chunks+12)*rows+
			narrowedBytes(rows, w.Hidden)+narrowedBytes(rows, headVocabulary), // LogProb
		narrowedBytes(T, max(w.Hidden, w.Intermediate, w.OutWidth())),                                          // Linear
		min(T, drawRows)*(4*(w.Vocab+3)+(2*partialBytes+8)*chunks+8)+narrowedBytes(min(T, drawRows), w.Hidden), // Draw, with a mask
		b.decodingParts(w),
	)
	if w.Gradients {
		most = max(most, 4*ceil(T, gradientChain)*b.gradientTiles(), // LinearGradW
			narrowedBytes(T, max(2*w.Intermediate, w.Width())), // LinearGradX
			4*T*(cacheRow(w.Heads)+2*w.Q*kept(w.Heads)+w.Q+1),  // AttentionGrad, in f32
			4*(T*(w.Q+2*w.KV)+ceil(T, headChunk)*2*w.Dim))      // QKNormRopeGradW
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
