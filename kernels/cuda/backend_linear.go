//go:build gpu

package cuda

import "github.com/seed-7879b91d/grpo/kernels"

// windowOf converts columns to a window.
func windowOf(c kernels.Cols) window { return window{own(c.Buf).at + ptr(4*c.From), c.Stride, c.N} }

// weightsOf converts a matrix to weights.
func weightsOf(w kernels.Matrix) weights {
	m := ownMatrix(w)
	of := weights{at: m.memory.At, dtype: m.t, stride: m.cols, n: m.rows, k: m.cols, codes: m.codes}
	if m.codes.values != 0 {
		of.stride = m.codes.pitch
	}
	return of
}

// epilogueOf converts the options of a product.
func epilogueOf(o kernels.LinearOpt) epilogue {
	w := epilogue{alpha: o.Alpha, accumulate: o.Accumulate}
	if o.Bias != nil {
		w.bias = own(o.Bias).at
	}
	return w
}

// Linear multiplies rows by a matrix.
func (b *Backend) Linear(out, x kernels.Cols, w kernels.Matrix, o kernels.LinearOpt, T int) {
	if to, from, of := windowOf(out), windowOf(x), weightsOf(w); !b.tryNarrowed(linearName, to, from, of, epilogueOf(o), T) {
		b.note(b.products.linear(b.stream, to, from, of, epilogueOf(o), T))
	}
}

// LinearGradX is the gradient with respect to the rows.
func (b *Backend) LinearGradX(dx, dy kernels.Cols, w kernels.Matrix, o kernels.LinearOpt, T int) {
	if to, from, of := windowOf(dx), windowOf(dy), weightsOf(w); !b.tryNarrowed(gradXName, to, from, of, epilogueOf(o), T) {
		b.note(b.products.gradX(b.stream, to, from, of, epilogueOf(o), T))
	}
}

// tryNarrowed rounds the rows to bf16 and multiplies them, if that is faster than a product that rounds them in each tile. Otherwise it
// does nothing and reports false.
func (b *Backend) tryNarrowed(op string, out, x window, w weights, o epilogue, T int) bool {
	t, ok := b.products.narrows(op, out, w, T)
	if !ok {
		return false
	}
	if room, ok := b.scratchFor(narrowedBytes(T, x.n)); ok {
		b.note(b.products.narrowAndMultiply(b.stream, op, t, out, x, room, w, o, T))
	}
	return true
}

// LinearGradW adds the gradient of the matrix.
func (b *Backend) LinearGradW(dw kernels.Buffer, dy, x kernels.Cols, alpha float32, _ kernels.DType, T int) {
	var sums scratch
	if n := b.products.sumsOfGradW(dy.N, x.N, T); n > 0 {
		at, ok := b.scratchFor(4 * n)
		if !ok {
			return
		}
		sums = scratch{at, n}
	}
	b.note(b.products.gradW(b.stream, own(dw).at, windowOf(dy), windowOf(x), alpha, sums, T))
}
