package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

// matrix is a weight in panels of 32 rows; see matrix.h.
type matrix struct {
	mem        *memory
	t          kernels.DType
	rows, cols int

	size       int           // of mem
	integers   bool          // Linear multiplies it in integers; see whole.go
	compressed bool          // Compress was called, or it is quantised: it is read-only
	layout     C.grpo_matrix // of mem, if compressed or quantised
}

func (m *matrix) DType() kernels.DType { return m.t }
func (m *matrix) Rows() int            { return m.rows }
func (m *matrix) Cols() int            { return m.cols }
func (m *matrix) Bytes() int           { return m.size }
func (m *matrix) Compressed() bool     { return m.compressed }

// panels is the number of panels of the rows of a matrix, or of the columns of a product.
func panels(rows int) int { return (rows + C.PANEL - 1) / C.PANEL }

// NewMatrix makes a matrix of zeros.
func (b *backend) NewMatrix(t kernels.DType, rows, cols int) (kernels.Matrix, error) {
	m := &matrix{t: t, rows: rows, cols: cols, size: matrixSize(t, rows, cols)}
	var err error
	m.mem, err = allocate(m.size)
	return m, err
}

// matrix describes m for the kernels, and keeps its memory alive until release.
func (b *backend) matrix(m kernels.Matrix) C.grpo_matrix {
	c, ok := m.(*matrix)
	if !ok {
		panic(fmt.Sprintf("cpu: %T is not a matrix of this backend", m))
	}
	b.keep(c.mem)
	if c.layout.panels != nil {
		return c.layout
	}
	x := C.grpo_matrix{panels: c.mem.p, dtype: C.GRPO_BF16, rows: C.int64_t(c.rows), cols: C.int64_t(c.cols)}
	switch c.t {
	case kernels.F32:
		x.dtype = C.GRPO_F32
	case kernels.BF16Rounding:
		x.rounds = 1
	}
	return x
}

// Load writes rows of m from the bytes of a file.
func (b *backend) Load(m kernels.Matrix, row int, src kernels.HostRows) {
	n := len(src.Bytes) / (m.Cols() * src.Encoding.Size())
	if n == 0 {
		return
	}
	defer b.release()
	a := args[C.grpo_load_rows](b)
	a.m = b.matrix(m)
	// An integer and not a pointer: C memory may not hold pointers into Go's, where the bytes may be. They do not move.
	a.src = C.uintptr_t(uintptr(unsafe.Pointer(&src.Bytes[0])))
	a.encoding = C.int32_t(src.Encoding)
	a.row, a.count = C.int64_t(row), C.int64_t(n)
	b.run(b.ops.load_rows, panels(row+n)-row/C.PANEL, 1)
	runtime.KeepAlive(src.Bytes)
}

// Pack writes rows of an F32 matrix from a row-major buffer.
func (b *backend) Pack(m kernels.Matrix, row int, src kernels.Buffer) {
	n := src.Len() / m.Cols()
	if n == 0 {
		return
	}
	defer b.release()
	a := args[C.grpo_pack_matrix](b)
	a.m = b.matrix(m)
	a.rows = b.f32(src)
	a.row, a.count = C.int64_t(row), C.int64_t(n)
	b.run(b.ops.pack_matrix, panels(row+n)-row/C.PANEL, 1)
}

// Unpack writes all of m, row-major, into dst.
func (b *backend) Unpack(dst kernels.Buffer, m kernels.Matrix) {
	defer b.release()
	a := args[C.grpo_unpack_matrix](b)
	a.m = b.matrix(m)
	a.rows = b.f32(dst)
	b.run(b.ops.unpack_matrix, panels(m.Rows()), 1)
}
