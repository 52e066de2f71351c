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
	w, ok := m.(*matrix)
	if !ok {
		b.matrix("Settle: m", m) // says what is wrong with it
	}
	if w.settled {
		return nil
	}
	w.settled = true
	if w.t == kernels.F32 || w.cols%C.GROUP != 0 {
		return nil
	}
	defer b.release()
	n := panels(w.rows)
	windows, err := allocate(n * (8 + 1))
	if err != nil {
		return err
	}
	defer windows.free()
	outside := (*C.int64_t)(windows.p)
	bases := (*C.uint8_t)(unsafe.Add(windows.p, 8*n))
	a := args[C.grpo_choose_window](b)
	a.raw, a.outside, a.bases = b.matrix("Settle: m", m), outside, bases
	raw := a.raw
	b.run(b.ops.choose_window, n, 1)

	patches := 0
	for _, outside := range unsafe.Slice(outside, n) {
		patches += int(outside)
	}
	if patches*worthPatching > w.rows*w.cols {
		return nil
	}
	// The panels, where each one's patches begin, the patches with one more for each panel, the bases.
	packed := w.Bytes() / 4 * 3
	size := packed + 8*n + C.sizeof_grpo_patch*(patches+n) + n
	mem, err := allocate(size)
	if err != nil {
		return err
	}
	first := unsafe.Add(mem.p, packed)
	list := unsafe.Add(first, 8*n)
	settledBases := unsafe.Add(list, C.sizeof_grpo_patch*(patches+n))
	next := 0
	for p, outside := range unsafe.Slice(outside, n) {
		unsafe.Slice((*C.int64_t)(first), n)[p] = C.int64_t(next)
		next += int(outside) + 1
	}
	copy(unsafe.Slice((*byte)(settledBases), n), unsafe.Slice((*byte)(unsafe.Pointer(bases)), n))

	w.packed = C.grpo_matrix{panels: mem.p, dtype: raw.dtype, rounds: raw.rounds, rows: raw.rows, cols: raw.cols,
		patches: (*C.grpo_patch)(list), first_patch: (*C.int64_t)(first), bases: (*C.uint8_t)(settledBases)}
	s := args[C.grpo_settle](b)
	s.raw, s.settled, s.patches, s.bases = raw, w.packed, (*C.grpo_patch)(list), (*C.uint8_t)(settledBases)
	b.run(b.ops.settle, n, 1)
	w.mem.free()
	w.mem, w.size = mem, size
	return nil
}
