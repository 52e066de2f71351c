package cpu

// #include "kernels.h"
import "C"

import (
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// patchEvery is how many weights there must be for each one outside the window of its panel: patches that are as rare cost
// no time when the matrix is read.
const patchEvery = 512

// Compress stores a matrix of bf16 losslessly in three quarters of its space, if its exponents allow it: see
// compress.h. Decoding of tokens reads every weight for a few rows, so memory bandwidth bounds it: fewer bytes take
// less time.
func (b *backend) Compress(m kernels.Matrix) error {
	defer b.release()
	raw := b.matrix(m)
	w := m.(*matrix)
	if w.compressed {
		return nil
	}
	w.compressed = true
	if w.t == kernels.F32 || w.cols%C.GROUP != 0 {
		return nil
	}
	windows, err := b.chooseWindows(raw)
	if err != nil {
		return err
	}
	defer windows.mem.free()
	if windows.patches*patchEvery > w.rows*w.cols {
		return nil
	}
	return b.compressInto(w, raw, windows)
}

// windows are the exponents that the panels of a compressed matrix can express: 16 consecutive ones for each panel.
type windows struct {
	mem     *memory
	bases   []C.uint8_t // [panels] the lowest exponent
	outside []C.int64_t // [panels] how many weights have an exponent outside the window
	patches int         // the sum of outside
}

func (b *backend) chooseWindows(raw C.grpo_matrix) (w windows, err error) {
	n := panels(int(raw.rows))
	if w.mem, err = allocate(9 * n); err != nil {
		return w, err
	}
	w.outside = unsafe.Slice((*C.int64_t)(w.mem.p), n)
	w.bases = unsafe.Slice((*C.uint8_t)(unsafe.Add(w.mem.p, 8*n)), n)
	a := args[C.grpo_choose_window](b)
	a.raw, a.outside, a.bases = raw, &w.outside[0], &w.bases[0]
	b.run(b.ops.choose_window, n, 1)
	for _, outside := range w.outside {
		w.patches += int(outside)
	}
	return w, nil
}

// compressInto compresses w into new memory, which holds the panels, the index of each panel's first patch, the patches
// (a sentinel ends those of a panel), and the bases.
func (b *backend) compressInto(w *matrix, raw C.grpo_matrix, from windows) error {
	n := len(from.bases)
	firstAt := w.size / 4 * 3
	patchesAt := firstAt + 8*n
	basesAt := patchesAt + C.sizeof_grpo_patch*(from.patches+n)
	size := basesAt + n
	mem, err := allocate(size)
	if err != nil {
		return err
	}
	first := unsafe.Slice((*C.int64_t)(unsafe.Add(mem.p, firstAt)), n)
	patches := (*C.grpo_patch)(unsafe.Add(mem.p, patchesAt))
	bases := unsafe.Slice((*C.uint8_t)(unsafe.Add(mem.p, basesAt)), n)
	copy(bases, from.bases)
	next := C.int64_t(0)
	for p, outside := range from.outside {
		first[p] = next
		next += outside + 1
	}

	a := args[C.grpo_compress](b)
	a.raw, a.compressed = raw, raw
	a.compressed.panels, a.compressed.patches, a.compressed.first_patch, a.compressed.bases = mem.p, patches, &first[0], &bases[0]
	a.patches, a.bases = patches, &bases[0]
	compressed := a.compressed
	b.run(b.ops.compress, n, 1)
	w.mem.free()
	w.mem, w.size, w.layout = mem, size, compressed
	return nil
}
