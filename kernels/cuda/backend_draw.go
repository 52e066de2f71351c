//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// drawRows is how many rows of logits there are at a time. A row is drawn alone, so that it changes no number.
const drawRows = 128

// Draw computes the logits of some rows at a time and draws a token from each. What is asked of the whole distribution has the partials
// of before anything is excluded.
func (b *Backend) Draw(out kernels.DrawOut, h kernels.Buffer, w kernels.Matrix, d kernels.DrawIn, n int) {
	overwritten(out.Token)
	m, chunks := weightsOf(w), chunksOf(w.Rows())
	stride := ceil(m.n, 4) * 4 // rows begin at multiples of 16 bytes
	rows := min(n, drawRows)
	words, masked := kernels.MaskWords(m.n), 0
	if d.Allowed != nil {
		masked = rows
	}
	var logits, whole, rest, masses, cuts ptr
	if !b.divide(part{&logits, 4 * rows * stride}, part{&whole, partialBytes * rows * chunks}, part{&masses, 8 * rows * chunks},
		part{&cuts, 8 * rows}, part{&rest, partialBytes * masked * chunks}) {
		return
	}
	if masked == 0 {
		rest = whole
	}
	for row := 0; row < n; row += drawRows {
		rows := min(drawRows, n-row)
		from := func(x kernels.Buffer, width int) arg { // of a buffer that may be missing
			if x == nil {
				return address(0)
			}
			return at(x.Slice(row*width, n*width))
		}
		b.note(b.products.linear(b.stream, window{logits, stride, m.n}, window{own(h).at + ptr(4*row*m.k), m.k, m.k}, m,
			written{alpha: 1}, rows))
		size := []arg{address(logits), i64(stride), i64(m.n)}
		launch := func(name string, grid dims, outs []arg, args ...arg) {
			b.launch(name, grid, append(append(outs, size...), args...)...)
		}
		eachChunk, each := dims{X: chunks, Y: rows}, dims{X: rows}
		invTemp, minP, given := from(d.InvTemp, 1), from(d.MinP, 1), from(d.Given, 1)
		launch("draw_partials", eachChunk, []arg{address(whole)}, invTemp, f32(d.Cap))
		if out.Tops > 0 {
			overwritten(out.TopToken)
			launch("draw_tops", each, []arg{from(out.TopToken, out.Tops), from(out.TopLogP, out.Tops)}, address(whole), i64(out.Tops))
		}
		if masked > 0 {
			launch("draw_mask", eachChunk, []arg{address(rest)}, from(d.Allowed, words), given)
		}
		launch("draw_cuts", each, []arg{address(cuts)}, address(rest), invTemp, from(d.TopK, 1), from(d.TopP, 1))
		launch("draw_masses", eachChunk, []arg{address(masses)}, address(rest), address(cuts), minP, invTemp)
		launch("draw_tokens", each, []arg{from(out.Token, 1), from(out.LogP, 1)}, address(rest), address(masses), address(cuts), minP,
			invTemp, from(d.Uniform, 1))
		if out.Raw != nil || d.Given != nil {
			launch("draw_scores", each, []arg{from(out.Token, 1), from(out.LogP, 1), from(out.Raw, 1)}, address(whole), given)
		}
	}
}
