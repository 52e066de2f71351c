package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// drawRows is how many rows of logits are computed at a time.
const drawRows = 64

// Gather copies rows of x.
func (b *backend) Gather(out, x, rows kernels.Buffer, width, n int) {
	defer b.release()
	a := args[C.grpo_gather_rows](b)
	a.out, a.x = b.f32(out), b.f32(x)
	a.index = b.i32(rows)
	a.rows, a.width = C.int64_t(n), C.int64_t(width)
	b.run(b.ops.gather_rows, n, 16)
}

// Draw computes the logits of some rows at a time and draws a token from each.
func (b *backend) Draw(out kernels.DrawOut, h kernels.Buffer, w kernels.Matrix, d kernels.DrawIn, n int) {
	defer b.release()
	V, H := w.Rows(), w.Cols()
	token, logp := b.i32(out.Token), b.f32(out.LogP)
	hidden, m := b.f32(h), b.matrix(w)
	invTemp, uniform := b.f32(d.InvTemp), b.f64(d.Uniform)
	topK := b.i32(d.TopK)
	topP, minP := b.f32(d.TopP), b.f32(d.MinP)
	o := b.drawOptions(out, d, V, n)

	stride := panels(V)*C.PANEL + C.PANEL
	for row := 0; row < n; row += drawRows {
		rows := min(drawRows, n-row)
		logits := (*C.float)(b.shared(slotLogits, 4*rows*stride))
		p := product{rows: rows, inner: H, x: at(hidden, row*H), xStride: H, out: logits, outStride: stride, pack: b.ops.pack_rows}
		p.g = C.grpo_gemm{b_kind: C.B_OUTPUTS, m: m, cols: C.int64_t(V), alpha: 1}
		b.multiply(&p)

		truncated := 0 // the scratch space of truncation, if any row needs it
		for i := row; i < row+rows; i++ {
			if *at(topK, i) > 0 || *at(topP, i) < 1 {
				truncated = truncatedBytes(V)
			}
		}
		b.scratch(drawBytes(V) + truncated)
		a := args[C.grpo_draw](b)
		a.logits, a.stride, a.vocabulary, a.cap = logits, C.int64_t(stride), C.int64_t(V), C.float(d.Cap)
		a.inv_temp, a.uniform, a.top_k = at(invTemp, row), (*C.double)(unsafe.Add(unsafe.Pointer(uniform), 8*row)), at(topK, row)
		a.top_p, a.min_p = at(topP, row), at(minP, row)
		a.token, a.logp = at(token, row), at(logp, row)
		o.rowsFrom(a, row)
		b.run(b.ops.draw, rows, 1)
	}
}

// drawBytes is the scratch space of a row, and truncatedBytes what it needs besides for top-k or top-p.
func drawBytes(V int) int { return C.sizeof_grpo_partial * (chunks(V) + 16) }

func truncatedBytes(V int) int { return C.sizeof_grpo_buckets + V*C.sizeof_grpo_cut }

// drawOptions are the optional operands of a draw.
type drawOptions struct {
	allowed         *C.uint32_t
	given, topToken *C.int32_t
	raw, topLogP    *C.float
	words, tops     int
}

func (b *backend) drawOptions(out kernels.DrawOut, d kernels.DrawIn, V, n int) drawOptions {
	o := drawOptions{words: kernels.MaskWords(V), tops: out.Tops}
	if d.Allowed != nil {
		o.allowed = (*C.uint32_t)(b.address(d.Allowed))
	}
	if d.Given != nil {
		o.given = b.i32(d.Given)
		for i, token := range unsafe.Slice(o.given, n) {
			if int(token) >= V {
				panic(fmt.Sprintf("cpu: Draw: token %d is given to row %d, in a vocabulary of %d", token, i, V))
			}
		}
	}
	if out.Raw != nil {
		o.raw = b.f32(out.Raw)
	}
	if out.Tops > 0 {
		o.topToken, o.topLogP = b.i32(out.TopToken), b.f32(out.TopLogP)
	}
	return o
}

// rowsFrom sets the optional operands for a draw of rows from the given one on.
func (o *drawOptions) rowsFrom(a *C.grpo_draw, row int) {
	a.words, a.tops = C.int64_t(o.words), C.int64_t(o.tops)
	if o.allowed != nil {
		a.allowed = at(o.allowed, row*o.words)
	}
	if o.given != nil {
		a.given = at(o.given, row)
	}
	if o.raw != nil {
		a.raw = at(o.raw, row)
	}
	if o.tops > 0 {
		a.top_token, a.top_logp = at(o.topToken, row*o.tops), at(o.topLogP, row*o.tops)
	}
}
