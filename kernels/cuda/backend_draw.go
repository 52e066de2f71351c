//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// drawRows is the number of rows of logits in memory at a time. It affects no result, because rows are sampled independently.
const drawRows = 128

// Draw computes the logits of drawRows rows at a time and samples a token from each. Scores and the most likely tokens are of the whole
// distribution, from partial sums that are computed before the mask.
func (b *Backend) Draw(out kernels.DrawOut, h kernels.Buffer, w kernels.Matrix, d kernels.DrawIn, n int) {
	forWriting(out.Token)
	m, chunks := weightsOf(w), chunksOf(w.Rows())
	stride := ceil(m.n, 4) * 4 // rows are aligned to 16 bytes
	rows := min(n, drawRows)
	words, masked, room := kernels.MaskWords(m.n), 0, 0
	if _, ok := b.products.narrows(linearName, window{0, stride, m.n}, m, rows); ok {
		room = narrowedBytes(rows, m.k)
	}
	if d.Allowed != nil {
		masked = rows
	}
	var logits, narrowed, whole, rest, masses, cuts ptr
	if !b.scratchParts(scratchPart{&logits, 4 * rows * stride}, scratchPart{&narrowed, room},
		scratchPart{&whole, partialBytes * rows * chunks}, scratchPart{&masses, 8 * rows * chunks}, scratchPart{&cuts, 8 * rows},
		scratchPart{&rest, partialBytes * masked * chunks}) {
		return
	}
	if masked == 0 {
		rest = whole
	}
	for row := 0; row < n; row += drawRows {
		rows := min(drawRows, n-row)
		b.note(b.products.linearWithRoom(b.stream, narrowed, window{logits, stride, m.n}, window{own(h).at + ptr(4*row*m.k), m.k, m.k}, m, rows))
		eachChunk, each := dims{X: chunks, Y: rows}, dims{X: rows}
		l, rowStride, vocabulary := address(logits), i64(stride), i64(m.n)
		token, logp := rowOf(out.Token, row, 1), rowOf(out.LogP, row, 1)
		invTemp, minP, given := rowOf(d.InvTemp, row, 1), rowOf(d.MinP, row, 1), rowOf(d.Given, row, 1)
		b.launch("draw_partials", eachChunk, address(whole), l, rowStride, vocabulary, invTemp, f32(d.Cap))
		if out.Tops > 0 {
			forWriting(out.TopToken)
			b.launch("draw_tops", each, rowOf(out.TopToken, row, out.Tops), rowOf(out.TopLogP, row, out.Tops), l, rowStride, vocabulary,
				address(whole), i64(out.Tops))
		}
		if masked > 0 {
			b.launch("draw_mask", eachChunk, address(rest), l, rowStride, vocabulary, rowOf(d.Allowed, row, words), given)
		}
		b.launch("draw_cuts", each, address(cuts), l, rowStride, vocabulary, address(rest), invTemp, rowOf(d.TopK, row, 1), rowOf(d.TopP, row, 1))
		b.launch("draw_masses", eachChunk, address(masses), l, rowStride, vocabulary, address(rest), address(cuts), minP, invTemp)
		b.launch("draw_tokens", each, token, logp, l, rowStride, vocabulary, address(rest), address(masses), address(cuts), minP, invTemp,
			rowOf(d.Uniform, row, 1))
		if out.Raw != nil || d.Given != nil {
			b.launch("draw_scores", each, token, logp, rowOf(out.Raw, row, 1), l, rowStride, vocabulary, address(whole), given)
		}
	}
}

// rowOf is the address of a row of width elements in a buffer, which may be nil. A Slice would allocate in every step.
func rowOf(x kernels.Buffer, row, width int) arg {
	if x == nil {
		return address(0)
	}
	o := own(x)
	return address(o.at + ptr(row*width*o.t.Size()))
}
