//go:build gpu

package cuda

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
)

// The vocabulary is divided into chunks of headVocabulary tokens and the rows into rounds of headRows, so that only the logits of one round
// and chunk are in memory. Both sizes affect the results, so they do not depend on the card. head.h has the same size of chunks.
const (
	headVocabulary = 4096
	headRows       = 2048
)

// partialBytes is the size of Partial in head.h, the statistics of one chunk of a row.
const partialBytes = 12

// LogProb scores targets. A Jacobian takes a second product with each chunk of w.
func (b *Backend) LogProb(out kernels.LogProbOut, h kernels.Buffer, w kernels.Matrix, targets kernels.Buffer, l kernels.Logits, T int) {
	if out.Jacobian != nil {
		b.clear(out.Jacobian, T*w.Cols())
	}
	for _, x := range []kernels.Buffer{out.LogP, out.Entropy, out.LSE} {
		b.clear(x, T)
	}
	r, ok := b.rowsWithTargets("LogProb", h, w, targets, T)
	if !ok {
		return
	}
	for r.next(b) {
		for c := range chunksOf(r.w.n) {
			if out.Jacobian == nil {
				r.logits(b, c, "head_partials", l, address(r.partials), address(r.targetLogits))
				continue
			}
			r.logits(b, c, "head_weights", l, address(r.partials), address(r.targetLogits), address(r.runningMax), address(r.mean), i64(r.w.k))
			r.gather(b, c)
		}
		b.launch("head_results", blocks(r.rows, threads/32), at(out.LogP), at(out.Entropy), at(out.LSE), address(r.inverseSums),
			address(r.partials), address(r.targetLogits), address(r.index), i64(chunksOf(r.w.n)), i64(r.rows))
		if out.Jacobian != nil {
			r.jacobian(b, at(out.Jacobian), l)
		}
	}
}

// gather adds the rows of w in a chunk to the mean, with the weights into which head_weights has turned the logits.
func (r *targetRows) gather(b *Backend, c int) {
	w, weights := r.chunk(c)
	mean, o := window{r.mean, w.k, w.k}, epilogue{alpha: 1, accumulate: c > 0}
	if t, ok := b.products.narrows(gradXName, mean, w, r.rows); ok && r.narrows {
		b.note(b.products.narrowAndMultiply(b.stream, gradXName, t, mean, weights, r.narrowedChunk, w, o, r.rows))
		return
	}
	b.note(b.products.gradX(b.stream, mean, weights, w, o, r.rows))
}

// jacobian writes the Jacobian for the rows of a round.
func (r *targetRows) jacobian(b *Backend, out arg, l kernels.Logits) {
	mean, inverse, targets, index, targetLogits := address(r.mean), address(r.inverseSums), address(r.targets),
		address(r.index), address(r.targetLogits)
	if c := r.w.codes; c.values != 0 {
		b.launch("head_jacobian_codes", dims{X: r.rows}, out, address(r.w.at), address(c.scales), i64(c.shift), address(c.values),
			mean, inverse, targets, index, targetLogits, f32(l.Cap), f32(l.InvTemp), i64(r.w.k))
		return
	}
	name := "head_jacobian"
	if r.w.dtype != kernels.F32 {
		name = "head_jacobian_bf16"
	}
	b.launch(name, dims{X: r.rows}, out, address(r.w.at), mean, inverse, targets, index, targetLogits, f32(l.Cap), f32(l.InvTemp), i64(r.w.k))
}

// LogProbGradX scales the rows of the Jacobian.
func (b *Backend) LogProbGradX(dh, dlogp, jacobian kernels.Buffer, H, T int) {
	b.launch("scale_rows", dims{X: T}.By(H, 4*threads), at(dh), at(jacobian), at(dlogp), i64(H))
}

// LogProbGradW adds the gradient of the matrix. It recomputes the logits.
func (b *Backend) LogProbGradW(dw, dlogp, h kernels.Buffer, w kernels.Matrix, targets, lse kernels.Buffer, l kernels.Logits, T int) {
	r, ok := b.rowsWithTargets("LogProbGradW", h, w, targets, T)
	if !ok {
		return
	}
	for r.next(b) {
		for c := range chunksOf(r.w.n) {
			r.logits(b, c, "head_grad_logits", l, address(r.index), at(dlogp), at(lse))
			_, changes := r.chunk(c)
			to := own(dw).at + ptr(4*c*headVocabulary*r.w.k)
			b.note(b.products.gradW(b.stream, to, changes, window{r.h, r.w.k, r.w.k}, 1, scratch{}, r.rows))
		}
	}
}

// clear sets the first n elements to 0.
func (b *Backend) clear(x kernels.Buffer, n int) { b.Zero(own(x).Slice(0, n)) }

// targetRows are the rows with a target, which are processed in rounds, and the memory of a round.
type targetRows struct {
	all         ptr // the indices of these rows, then their targets
	count, done int // rows in total, and in this round and those before
	from        ptr // h of all rows
	w           weights

	rows                                  int // of this round
	index, targets                        ptr // of its rows; parts of all
	h                                     ptr // [rows, H], gathered
	chunkLogits                           ptr // [rows, headVocabulary]: logits, which kernels overwrite by weights or gradients
	mean                                  ptr // [rows, H]: weighted sum of the rows of w; jacobian divides it by the sum of the weights
	narrowedH, narrowedChunk              ptr // h and chunkLogits in bf16, in strips
	narrows                               bool
	partials                              ptr // [rows, chunks]
	targetLogits, runningMax, inverseSums ptr // [rows]
}

// rowsWithTargets lists the rows whose target is not negative. It reads the targets from the card, and waits for that, unless the host
// has uploaded them. It reports false if there are no rows.
func (b *Backend) rowsWithTargets(op string, h kernels.Buffer, w kernels.Matrix, targets kernels.Buffer, T int) (*targetRows, bool) {
	wanted, known := own(targets).uploaded(T)
	if !known {
		wanted = make([]int32, T)
		if err := b.stream.Read(raw(wanted), own(targets).at); err != nil {
			b.note(err)
			return nil, false
		}
	}
	var index, of []int32
	for t, target := range wanted {
		if int(target) >= w.Rows() {
			panic(fmt.Sprintf("cuda: %s: target %d of row %d, in a vocabulary of %d", op, target, t, w.Rows()))
		}
		if target >= 0 {
			index, of = append(index, int32(t)), append(of, target)
		}
	}
	r := &targetRows{count: len(index), from: own(h).at, w: weightsOf(w)}
	rows, ofH, ofWeights := min(r.count, headRows), 0, 0
	first, logits := r.chunk(0)
	if _, r.narrows = b.products.narrows(linearName, logits, first, rows); r.narrows {
		ofH, ofWeights = narrowedBytes(rows, r.w.k), narrowedBytes(rows, first.n)
	}
	ok := b.scratchParts(scratchPart{&r.all, 8 * r.count}, scratchPart{&r.h, 4 * rows * r.w.k}, scratchPart{&r.mean, 4 * rows * r.w.k},
		scratchPart{&r.chunkLogits, 4 * rows * headVocabulary}, scratchPart{&r.partials, partialBytes * rows * chunksOf(r.w.n)},
		scratchPart{&r.targetLogits, 4 * rows}, scratchPart{&r.runningMax, 4 * rows}, scratchPart{&r.inverseSums, 4 * rows},
		scratchPart{&r.narrowedH, ofH}, scratchPart{&r.narrowedChunk, ofWeights})
	if ok {
		b.note(b.moves.Upload(r.all, raw(append(index, of...))))
	}
	return r, ok
}

// next gathers the rows of the next round.
func (r *targetRows) next(b *Backend) bool {
	r.rows = min(r.count-r.done, headRows)
	if r.rows == 0 {
		return false
	}
	r.index = r.all + ptr(4*r.done)
	r.targets = r.index + ptr(4*r.count)
	r.done += r.rows
	b.launch("gather", dims{X: r.rows}, address(r.h), address(r.from), address(r.index), i64(r.w.k))
	if r.narrows { // once for all chunks
		b.note(b.products.narrow(b.stream, r.strips(), window{r.h, r.w.k, r.w.k}, r.rows))
	}
	return true
}

// strips are the rows of a round in bf16, padded to the height of the tallest tile.
func (r *targetRows) strips() strips { return tile{rows: stripRows}.stripsIn(r.narrowedH, r.rows) }

// chunksOf is the number of chunks of a vocabulary.
func chunksOf(vocabulary int) int { return ceil(vocabulary, headVocabulary) }

// chunk returns the rows of w in a chunk, and the window for their logits.
func (r *targetRows) chunk(c int) (weights, window) {
	first := c * headVocabulary
	w := r.w.rowsFrom(first, min(r.w.n-first, headVocabulary))
	return w, window{r.chunkLogits, headVocabulary, w.n}
}

// logits computes the logits of a chunk and launches a kernel of head.cu on them.
func (r *targetRows) logits(b *Backend, c int, kernel string, l kernels.Logits, args ...arg) {
	w, logits := r.chunk(c)
	if t, ok := b.products.narrows(linearName, logits, w, r.rows); ok && r.narrows {
		b.note(b.products.multiplyNarrowed(b.stream, linearName, t, logits, r.strips(), w, epilogue{alpha: 1}, r.rows))
	} else {
		b.note(b.products.linear(b.stream, logits, window{r.h, w.k, w.k}, w, epilogue{alpha: 1}, r.rows))
	}
	form := []arg{address(logits.at), i64(c), i64(r.w.n), f32(l.Cap), f32(l.InvTemp), address(r.targets)}
	b.launch(kernel, dims{X: r.rows}, append(form, args...)...)
}

// scratchPart is a request for a part of the scratch memory, whose address is stored in at.
type scratchPart struct {
	at    *ptr
	bytes int
}

// scratchParts divides scratch memory into parts; it reports false as scratchFor does.
func (b *Backend) scratchParts(parts ...scratchPart) bool {
	const alignment = 256 // bytes: the alignment of allocations
	all := 0
	for _, p := range parts {
		all += ceil(p.bytes, alignment) * alignment
	}
	at, ok := b.scratchFor(all)
	for _, p := range parts {
		*p.at = at
		at += ptr(ceil(p.bytes, alignment) * alignment)
	}
	return ok
}
