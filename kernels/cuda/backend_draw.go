//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// drawRows is how many rows of logits there are at a time. A row is drawn alone, so that it changes no number.
const drawRows = 128

// Draw computes the logits of some rows at a time and draws a token from each.
func (b *Backend) Draw(out kernels.DrawOut, h kernels.Buffer, w kernels.Matrix, d kernels.DrawIn, n int) {
	overwritten(out.Token)
	m, chunks := weightsOf(w), chunksOf(w.Rows())
	stride := ceil(m.n, 4) * 4 // rows begin at multiples of 16 bytes
	rows := min(n, drawRows)
	var logits, partials, masses, cuts ptr
	if !b.divide(part{&logits, 4 * rows * stride}, part{&partials, partialBytes * rows * chunks}, part{&masses, 8 * rows * chunks},
		part{&cuts, 8 * rows}) {
		return
	}
	for row := 0; row < n; row += drawRows {
		rows := min(drawRows, n-row)
		from := func(x kernels.Buffer) arg { return at(x.Slice(row, n)) }
		b.note(b.products.linear(b.stream, window{logits, stride, m.n}, window{own(h).at + ptr(4*row*m.k), m.k, m.k}, m,
			written{alpha: 1}, rows))
		size := []arg{address(logits), i64(stride), i64(m.n)}
		launch := func(name string, grid dims, outs []arg, args ...arg) {
			b.launch(name, grid, append(append(outs, size...), args...)...)
		}
		invTemp, minP := from(d.InvTemp), from(d.MinP)
		launch("draw_partials", dims{X: chunks, Y: rows}, []arg{address(partials)}, invTemp, f32(d.Cap))
		launch("draw_cuts", dims{X: rows}, []arg{address(cuts)}, address(partials), invTemp, from(d.TopK), from(d.TopP))
		launch("draw_masses", dims{X: chunks, Y: rows}, []arg{address(masses)}, address(partials), address(cuts), minP, invTemp)
		launch("draw_tokens", dims{X: rows}, []arg{from(out.Token), from(out.LogP)}, address(partials), address(masses), address(cuts), minP,
			invTemp, from(d.Uniform))
	}
}
