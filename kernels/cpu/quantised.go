package cpu

// #include "kernels.h"
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

var _ kernels.Quantiser = (*backend)(nil)

// quantisedShape is the memory layout of a matrix of four bits a weight: its panels, the scales, the 16 values.
type quantisedShape struct {
	rows, cols, segment      int
	scalesAt, valuesAt, size int
}

// shapeOf is the layout of the parts as one matrix. It returns false if their values or blocks differ, or if there would be so many
// scales that little is saved.
func shapeOf(parts []kernels.Quantised) (s quantisedShape, ok bool) {
	first := &parts[0]
	for _, p := range parts {
		if p.Values != first.Values || p.Block != first.Block {
			return s, false
		}
		s.rows += p.Rows
	}
	s.cols, s.segment = first.Cols, gcd(first.Cols, first.Block)
	if s.cols%2 != 0 || s.segment < C.LEAST_SEGMENT {
		return s, false
	}
	s.scalesAt = panels(s.rows) * ((s.cols + C.CODES - 1) / C.CODES) * C.PANEL * C.CODES / 2
	s.valuesAt = s.scalesAt + panels(s.rows)*(s.cols/s.segment)*C.PANEL*4
	s.size = s.valuesAt + 4*len(first.Values)
	return s, true
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// QuantisedSize is the memory of the parts as one matrix; 0 if they cannot be one.
func (b *backend) QuantisedSize(parts []kernels.Quantised) int {
	s, _ := shapeOf(parts)
	return s.size
}

// NewQuantised makes a matrix that keeps the codes and decodes them when it is read: see nf4.h.
func (b *backend) NewQuantised(t kernels.DType, parts []kernels.Quantised) (kernels.Matrix, error) {
	s, ok := shapeOf(parts)
	if !ok {
		return nil, nil
	}
	mem, err := allocate(s.size)
	if err != nil {
		return nil, err
	}
	m := &matrix{mem: mem, t: t, rows: s.rows, cols: s.cols, size: s.size, compressed: true,
		integers: t == kernels.I16Rounding && s.multipliesAsIntegers()}
	m.layout = C.grpo_matrix{panels: mem.p, dtype: C.GRPO_BF16, rows: C.int64_t(s.rows), cols: C.int64_t(s.cols),
		scales: (*C.float)(unsafe.Add(mem.p, s.scalesAt)), values: (*C.float)(unsafe.Add(mem.p, s.valuesAt)),
		segment: C.int64_t(s.segment), native: flag((b.pairs || b.ops.lanes == 8) && areNormal(parts))}
	if t == kernels.BF16Rounding {
		m.layout.rounds = 1
	}
	copy(unsafe.Slice((*float32)(unsafe.Add(mem.p, s.valuesAt)), len(parts[0].Values)), parts[0].Values[:])
	row := 0
	for i := range parts {
		b.loadCodes(m, row, &parts[i])
		row += parts[i].Rows
	}
	return m, nil
}

// areNormal tells whether all products of values and scales are zero or well inside the range of normal numbers. Then they can be
// rounded to bf16 exactly by the instruction for that, which treats subnormal numbers as zeros, and on processors without it by two
// multiplications, one of them by 65536.
func areNormal(parts []kernels.Quantised) bool {
	const smallest, largest = 0x1p-110, 0x1p+110
	least, most := float32(largest), float32(0)
	for _, v := range parts[0].Values {
		if v = max(v, -v); v != 0 {
			least, most = min(least, v), max(most, v)
		}
	}
	for _, p := range parts {
		for _, s := range p.Scales {
			if s = max(s, -s); s != 0 && !(s*least >= smallest && s*most <= largest) {
				return false
			}
		}
	}
	return true
}

// loadCodes writes the codes and scales of rows of m.
func (b *backend) loadCodes(m *matrix, row int, q *kernels.Quantised) {
	defer b.release()
	a := args[C.grpo_load_codes](b)
	a.m = b.matrix(m)
	// Integers and not pointers, as in Load.
	a.codes = C.uintptr_t(uintptr(unsafe.Pointer(&q.Codes[0])))
	a.scales = C.uintptr_t(uintptr(unsafe.Pointer(&q.Scales[0])))
	a.block, a.row, a.count = C.int64_t(q.Block), C.int64_t(row), C.int64_t(q.Rows)
	b.run(b.ops.load_codes, panels(row+q.Rows)-row/C.PANEL, 1)
	runtime.KeepAlive(q)
}
