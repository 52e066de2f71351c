package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// scoreTiles is how many row tiles share one chunk of logits if no gradient is needed.
const scoreTiles = 8

// LogProb scores targets under the softmax of logits. A Jacobian takes a second product.
func (b *backend) LogProb(out kernels.LogProbOut, h kernels.Buffer, w kernels.Matrix, targets kernels.Buffer, l kernels.Logits, T int) {
	defer b.release()
	V, H := w.Rows(), w.Cols()
	logp, entropy := b.f32(out.LogP), b.f32(out.Entropy)
	lse := b.f32(out.LSE)
	var jacobian *C.float
	if out.Jacobian != nil {
		jacobian = b.f32(out.Jacobian)
	}
	s := b.rowsToScore("LogProb", h, w, targets, l, T)
	for t, target := range unsafe.Slice(b.i32(targets), T) {
		if target < 0 {
			*at(logp, t), *at(entropy, t), *at(lse, t) = 0, 0, 0
			if jacobian != nil {
				clear(unsafe.Slice(at(jacobian, t*H), H))
			}
		}
	}
	for s.next(b) {
		p := b.partials(s.rows, chunks(V))
		if jacobian == nil {
			b.headChunks(&s, p)
		} else {
			b.headWeights(&s, p)
		}
		c := args[C.grpo_head_combine](b)
		c.rows, c.chunks = C.int64_t(s.rows), C.int64_t(chunks(V))
		c.partials, c.target_logits, c.inverse_sum = p.partials, p.targets, p.inverse
		c.index, c.logp, c.entropy, c.lse = s.index, logp, entropy, lse
		b.run(b.ops.head_combine, s.rows, 16)
		if jacobian != nil {
			b.headJacobian(&s, p, jacobian)
		}
	}
}

// LogProbGradX: dh [T, H] = dlogp [T] · jacobian.
func (b *backend) LogProbGradX(dh, dlogp, jacobian kernels.Buffer, H, T int) {
	defer b.release()
	a := args[C.grpo_scale_rows](b)
	a.out, a.x = b.f32(dh), b.f32(jacobian)
	a.scale, a.width = b.f32(dlogp), C.int64_t(H)
	b.run(b.ops.scale_rows, T, 16)
}

// LogProbGradW: dw [V, H] += dlogp · (onehot(target) − softmax) · slope ⊗ h. It computes the logits again.
func (b *backend) LogProbGradW(dw, dlogp, h kernels.Buffer, w kernels.Matrix, targets, lse kernels.Buffer, l kernels.Logits, T int) {
	defer b.release()
	V, H := w.Rows(), w.Cols()
	out := b.f32(dw)
	dl, ls := b.f32(dlogp), b.f32(lse)
	s := b.rowsToScore("LogProbGradW", h, w, targets, l, T)
	for s.next(b) {
		for c := range chunks(V) {
			logits, width := b.headLogits(&s, c, 1, C.LOGIT_STRIDE, 0)
			a := args[C.grpo_head_grad_logits](b)
			a.logits, a.chunk, a.width = logits, C.int64_t(c), C.int64_t(width)
			a.targets, a.index, a.lse, a.dlogp, a.form = s.targets, s.index, ls, dl, s.logits
			b.run(b.ops.head_grad_logits, s.rows, 4)

			b.headOuter(&outer{dw: at(out, c*C.HEAD_CHUNK*H), dy: logits, x: s.h, dwStride: H, dyStride: C.LOGIT_STRIDE, xStride: H,
				n: width, k: H, rows: s.rows, alpha: 1, slot: slotWeights}, s.pieces == 1)
		}
	}
}

// headOuter adds to the gradient of the rows of some tokens. With tiles it rounds both factors, which only a matrix allows that rounds
// its factors in other products, too.
func (b *backend) headOuter(p *outer, tiles bool) {
	if tiles {
		b.outerTiles(p)
		return
	}
	packed := b.pack(b.ops.pack_cols, leftHand{slot: p.slot, x: p.dy, stride: p.dyStride, rows: p.n, inner: p.rows})
	g := C.grpo_gemm{b_kind: C.B_ROWS, b: p.x, b_stride: C.int64_t(p.xStride), cols: C.int64_t(p.k), alpha: p.alpha, accumulate: 1}
	g.out, g.out_stride = p.dw, C.int64_t(p.dwStride)
	g.a, g.rows, g.inner = packed, C.int64_t(p.n), C.int64_t(p.rows)
	b.gemm(&g, int(b.ops.tile))
}

// scoredRows are the rows with a target, processed in rounds of HEAD_ROWS.
type scoredRows struct {
	all, allTargets *C.int32_t // the index of every such row, and its target
	count, done     int
	from            *C.float // h of all rows of the batch
	w               C.grpo_matrix
	width           int
	logits          C.grpo_logit_form // how logits are scaled and capped

	// the current round
	rows           int
	index, targets *C.int32_t // [rows]
	h, packed      *C.float   // the gathered rows, and the same packed as the left-hand side of a product
	form           C.int32_t  // of packed
	pieces         int        // of its numbers, in the order of tiles
}

// rowsToScore lists the rows whose target is not negative.
func (b *backend) rowsToScore(op string, h kernels.Buffer, w kernels.Matrix, targets kernels.Buffer, l kernels.Logits, T int) scoredRows {
	lists := unsafe.Slice((*C.int32_t)(b.shared(slotIndex, 8*max(T, 1))), 2*T)
	index, wanted := lists[:0:T], lists[T:T]
	for t, target := range unsafe.Slice(b.i32(targets), T) {
		if int(target) >= w.Rows() {
			panic(fmt.Sprintf("cpu: %s: target %d of row %d, in a vocabulary of %d", op, target, t, w.Rows()))
		}
		if target >= 0 {
			index, wanted = append(index, C.int32_t(t)), append(wanted, target)
		}
	}
	return scoredRows{
		all: unsafe.SliceData(index), allTargets: unsafe.SliceData(wanted), count: len(index),
		from: b.f32(h), w: b.matrix(w), width: w.Cols(), logits: C.grpo_logit_form{inv_temp: C.float(l.InvTemp), cap: C.float(l.Cap)},
	}
}

// next gathers and packs the next round of rows.
func (s *scoredRows) next(b *backend) bool {
	s.rows = min(s.count-s.done, C.HEAD_ROWS)
	if s.rows == 0 {
		return false
	}
	s.index, s.targets = at(s.all, s.done), at(s.allTargets, s.done)
	s.done += s.rows
	s.h = (*C.float)(b.shared(slotRows, 4*s.rows*s.width))
	a := args[C.grpo_gather_rows](b)
	a.out, a.x, a.index = s.h, s.from, s.index
	a.rows, a.width = C.int64_t(s.rows), C.int64_t(s.width)
	b.run(b.ops.gather_rows, s.rows, 16)
	if s.pieces = b.pieces(&s.w); s.pieces > 0 {
		g := s.product(s.w.rows)
		s.packed = b.packTiles(b.ops.pack_tiles, slotPacked, s.h, s.width, &g)
		return true
	}
	s.form = b.leftForm(&s.w)
	s.packed = b.pack(b.ops.pack_rows, leftHand{slot: slotPacked, x: s.h, stride: s.width, rows: s.rows, inner: s.width,
		padded: wholePairs(&s.w, s.width), form: s.form})
	return true
}

func chunks(V int) int { return (V + C.HEAD_CHUNK - 1) / C.HEAD_CHUNK }

// partials are the intermediate results of a round until its last chunk is done.
type partials struct {
	partials                  *C.grpo_partial // [rows][chunks]
	targets, inverse, running *C.float        // [rows]
	scale                     *C.float        // [chunks done together][rows]
}

// partialNumbers is how many floats a row has in targets, inverse, running and scale.
const partialNumbers = 3 + C.HEAD_TOGETHER

func (b *backend) partials(rows, chunks int) partials {
	n := rows * chunks * C.sizeof_grpo_partial
	p := b.shared(slotPartial, n+partialNumbers*4*rows)
	r := (*C.float)(unsafe.Add(p, n))
	return partials{partials: (*C.grpo_partial)(p), targets: r, inverse: at(r, rows), running: at(r, 2*rows), scale: at(r, 3*rows)}
}

// headChunks computes the partials of the chunks independently of each other.
func (b *backend) headChunks(s *scoredRows, p partials) {
	kernel, tiles := b.ops.head_chunks, b.tiles(s.rows)
	block := min(tiles, scoreTiles)
	rows := block * int(b.ops.tile)
	own := 4 * C.PANEL * (C.DEPTH + rows)
	if s.pieces > 0 {
		kernel, tiles = b.ops.tiles_head_chunks, rowTiles(s.rows)
		block = min(tiles, scoreTiles)
		rows, own = block*C.TILE, int(C.grpo_tiles_scratch(C.int64_t(block), C.TILE_PANELS))
	}
	b.scratch(own + 4*C.LOGIT_STRIDE*rows)
	a := args[C.grpo_head_chunks](b)
	a.g = s.product(C.int64_t(s.w.rows))
	a.g.row_tiles, a.g.block_tiles = C.int64_t(tiles), C.int64_t(block)
	a.targets, a.partials, a.target_logits, a.form = s.targets, p.partials, p.targets, s.logits
	n := chunks(int(s.w.rows))
	a.chunks = C.int64_t(n)
	b.run(kernel, n*((tiles+block-1)/block), 1)
}

// product is h · wᵀ for a number of tokens of the vocabulary. It includes the scale of the logits if they are not capped.
func (s *scoredRows) product(tokens C.int64_t) C.grpo_gemm {
	g := C.grpo_gemm{b_kind: C.B_OUTPUTS, m: s.w, cols: tokens, alpha: s.logits.inv_temp, out_stride: C.LOGIT_STRIDE,
		a: s.packed, rows: C.int64_t(s.rows), inner: C.int64_t(s.width), pieces: C.int32_t(s.pieces)}
	if s.logits.cap != 0 {
		g.alpha = 1
	}
	if s.pieces == 0 {
		g.paired, g.inner = flag(s.form == C.PAIRED), C.int64_t(wholePairs(&s.w, s.width))
	}
	return g
}

// headLogits computes the logits of some chunks with all workers.
func (b *backend) headLogits(s *scoredRows, chunk, count, stride, apart int) (logits *C.float, width int) {
	first := chunk * C.HEAD_CHUNK
	width = min(count*C.HEAD_CHUNK, int(s.w.rows)-first)
	g := s.product(C.int64_t(width))
	g.m_offset = C.int64_t(first)
	g.out = (*C.float)(b.shared(slotLogits, 4*C.LOGIT_STRIDE*count*s.rows))
	g.out_stride, g.out_apart = C.int64_t(stride), C.int64_t(apart)
	b.headGemm(&g)
	return g.out, width
}

// headGemm runs a product of the head in the order of sums of its matrix.
func (b *backend) headGemm(g *C.grpo_gemm) {
	if g.pieces > 0 {
		b.tilesGemm(g)
	} else {
		b.gemm(g, int(b.ops.tile))
	}
}

// headWeights computes the partials in the order of the chunks, and with them the mean of the rows of w, not yet normalised, weighted
// by exp(logit − largest logit). In the order of tiles logits and means are laid out in panels, as tasks write them: rows that are
// pages apart would share a set of the caches.
func (b *backend) headWeights(s *scoredRows, p partials) {
	tiles, packedSize := b.tiles(s.rows), 4*s.rows*C.HEAD_CHUNK
	together, stride, apart := 1, C.LOGIT_STRIDE, 0
	if s.pieces > 0 {
		tiles = rowTiles(s.rows)
		packedSize = leftBytes(s.rows, C.HEAD_CHUNK, s.pieces)
		together, stride, apart = headTogether(s.pieces, int(s.w.rows)), C.PANEL, C.PANEL*s.rows
	}
	packed := b.shared(slotWeights, together*packedSize)
	for c := 0; c < chunks(int(s.w.rows)); c += together {
		logits, width := b.headLogits(s, c, together, stride, apart)
		a := args[C.grpo_head_weights](b)
		a.logits, a.packed, a.rows, a.tiles = logits, (*C.float)(packed), C.int64_t(s.rows), C.int64_t(tiles)
		a.chunk, a.chunks, a.width = C.int64_t(c), C.int64_t(chunks(int(s.w.rows))), C.int64_t(width)
		a.targets, a.partials, a.target_logits = s.targets, p.partials, p.targets
		a.running, a.scale, a.form, a.pieces, a.logit_form = p.running, p.scale, s.form, C.int32_t(s.pieces), s.logits
		b.run(b.ops.head_weights, tiles, 1)

		products := unsafe.Slice((*C.grpo_gemm)(b.shared(slotAdded, C.HEAD_TOGETHER*C.sizeof_grpo_gemm)), chunks(width))
		for i := range products {
			products[i] = b.headMean(s, c+i, at(p.scale, i*s.rows))
			products[i].a = (*C.float)(unsafe.Add(packed, i*packedSize))
			if i > 0 {
				products[i-1].then = &products[i]
			}
		}
		b.headGemm(&products[0])
	}
}

// headTogether is how many chunks are processed together: one if numbers have several pieces, because four were slower then.
func headTogether(pieces, V int) int {
	if pieces > 1 {
		return 1
	}
	return min(C.HEAD_TOGETHER, chunks(V))
}

// headMean is the product of a chunk's weights with its rows of w, added to the rescaled mean of the chunks before.
func (b *backend) headMean(s *scoredRows, chunk int, scale *C.float) C.grpo_gemm {
	first := chunk * C.HEAD_CHUNK
	width := min(C.HEAD_CHUNK, int(s.w.rows)-first)
	g := C.grpo_gemm{b_kind: C.B_INPUTS, m: s.w, m_offset: C.int64_t(first), cols: C.int64_t(s.width), alpha: 1}
	g.out, g.out_stride, g.out_apart = b.mean(s)
	if chunk > 0 {
		g.accumulate, g.row_scale = 1, scale
	}
	g.rows, g.inner, g.pieces = C.int64_t(s.rows), C.int64_t(width), C.int32_t(s.pieces)
	if s.pieces == 0 && s.form == C.PAIRED {
		g.paired, g.inner = 1, C.int64_t(even(width))
	}
	return g
}

// mean is the address of the mean, and the strides of its rows and of the panels of a row.
func (b *backend) mean(s *scoredRows) (mean *C.float, stride, apart C.int64_t) {
	mean = (*C.float)(b.shared(slotMean, 4*s.rows*panels(s.width)*C.PANEL))
	if s.pieces == 0 {
		return mean, C.int64_t(s.width), C.PANEL
	}
	return mean, C.PANEL, C.int64_t(C.PANEL * s.rows)
}

func (b *backend) headJacobian(s *scoredRows, p partials, jacobian *C.float) {
	a := args[C.grpo_head_jacobian](b)
	a.rows, a.width, a.w = C.int64_t(s.rows), C.int64_t(s.width), s.w
	a.targets, a.index, a.inverse_sum = s.targets, s.index, p.inverse
	a.mean, a.mean_stride, a.mean_apart = b.mean(s)
	a.target_logits, a.form, a.jacobian = p.targets, s.logits, jacobian
	b.run(b.ops.head_jacobian, s.rows, 4)
}
