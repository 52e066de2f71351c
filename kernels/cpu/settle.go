package cpu

// #include "kernels.h"
import "C"

import (
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// worthPatching is one weight in how many may lie outside the window of its panel, where groups are read as fast as
// if there were none.
const worthPatching = 512

// Settle keeps a matrix of bf16 in three quarters of its space, without loss, where its exponents allow it: see
// compact.h. What reads every weight for one row, as decoding does, is faster by what it need not read.
func (b *Backend) Settle(m kernels.Matrix) error {
	defer b.release()
	raw := b.matrix("Settle: m", m)
	w := m.(*matrix)
	if w.settled {
		return nil
	}
	w.settled = true
	if w.t == kernels.F32 || w.cols%C.GROUP != 0 {
		return nil
	}
	windows, err := b.chooseWindows(raw)
	if err != nil {
		return err
	}
	defer windows.mem.free()
	if windows.patches*worthPatching > w.rows*w.cols {
		return nil
	}
	return b.compact(w, raw, windows)
}

// windows are what the panels of a matrix are kept with.
type windows struct {
	mem     *memory
	bases   []C.uint8_t // the lowest exponent of each panel's window
	outside []C.int64_t // the weights of each that do not fit
	patches int         // those of all
}

func (b *Backend) chooseWindows(raw C.grpo_matrix) (w windows, err error) {
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

// compact moves a matrix into memory of its new size: the panels, where the patches of each begin, the patches (and
// one after the last of each panel), the bases.
func (b *Backend) compact(w *matrix, raw C.grpo_matrix, from windows) error {
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

	a := args[C.grpo_settle](b)
	a.raw, a.settled = raw, raw
	a.settled.panels, a.settled.patches, a.settled.first_patch, a.settled.bases = mem.p, patches, &first[0], &bases[0]
	a.patches, a.bases = patches, &bases[0]
	settled := a.settled
	b.run(b.ops.settle, n, 1)
	w.mem.free()
	w.mem, w.size, w.packed = mem, size, settled
	return nil
}
