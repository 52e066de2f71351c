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

	settled bool          // nothing is written any more
	size    int           // of mem
	packed  C.grpo_matrix // what mem then holds, if it is not panels; see settle.go
}

func (m *matrix) DType() kernels.DType { return m.t }
func (m *matrix) Rows() int            { return m.rows }
func (m *matrix) Cols() int            { return m.cols }
func (m *matrix) Bytes() int           { return m.size }

// panels is how many panels so many rows, or columns of a product, take.
func panels(rows int) int { return (rows + C.PANEL - 1) / C.PANEL }

// NewMatrix gives a matrix of zeros.
func (b *Backend) NewMatrix(t kernels.DType, rows, cols int) (kernels.Matrix, error) {
	if t != kernels.BF16 && t != kernels.BF16Rounding && t != kernels.F32 {
		return nil, fmt.Errorf("cpu: a matrix of %v; expected f32, bf16 or rounding bf16", t)
	}
	if rows <= 0 || cols <= 0 {
		return nil, fmt.Errorf("cpu: a matrix of %d × %d", rows, cols)
	}
	whole := cols
	if t != kernels.F32 {
		whole = even(cols) // columns lie in pairs
	}
	m := &matrix{t: t, rows: rows, cols: cols, size: panels(rows) * C.PANEL * whole * t.Size()}
	var err error
	m.mem, err = allocate(m.size)
	return m, err
}

func (b *Backend) matrix(what string, m kernels.Matrix) C.grpo_matrix {
	c, ok := m.(*matrix)
	if !ok {
		panic(fmt.Sprintf("cpu: %s: %T is not a matrix of this backend", what, m))
	}
	b.keep(c.mem)
	if c.packed.panels != nil {
		return c.packed
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

// Load writes rows of m from a file's bytes.
func (b *Backend) Load(m kernels.Matrix, row int, src kernels.HostRows) {
	width := m.Cols() * src.Encoding.Size()
	n := len(src.Bytes) / width
	switch {
	case n*width != len(src.Bytes):
		panic(fmt.Sprintf("cpu: Load: %d bytes are not whole rows of %d", len(src.Bytes), width))
	case m.DType() != kernels.F32 && src.Encoding != kernels.EncodedBF16:
		panic("cpu: Load: a bf16 matrix takes bf16 only")
	}
	checkRows("Load", m, row, n)
	checkOpen("Load", m)
	if n == 0 {
		return
	}
	defer b.release()
	a := args[C.grpo_load_rows](b)
	a.m = b.matrix("Load: m", m)
	// A number and not a pointer, for the bytes may be Go's, or a mapped file's. They stay where they are.
	a.src = C.uintptr_t(uintptr(unsafe.Pointer(&src.Bytes[0])))
	a.encoding = C.int32_t(src.Encoding)
	a.row, a.count = C.int64_t(row), C.int64_t(n)
	b.run(b.ops.load_rows, panels(row+n)-row/C.PANEL, 1)
	runtime.KeepAlive(src.Bytes)
}

// Pack writes rows of an F32 matrix from a row-major buffer.
func (b *Backend) Pack(m kernels.Matrix, row int, src kernels.Buffer) {
	n := src.Len() / m.Cols()
	switch {
	case n*m.Cols() != src.Len():
		panic(fmt.Sprintf("cpu: Pack: %d elements are not whole rows of %d", src.Len(), m.Cols()))
	case m.DType() != kernels.F32:
		panic(fmt.Sprintf("cpu: Pack: a matrix of %v; expected f32", m.DType()))
	}
	checkRows("Pack", m, row, n)
	checkOpen("Pack", m)
	if n == 0 {
		return
	}
	defer b.release()
	a := args[C.grpo_pack_matrix](b)
	a.m = b.matrix("Pack: m", m)
	a.rows = b.f32("Pack: src", src, src.Len())
	a.row, a.count = C.int64_t(row), C.int64_t(n)
	b.run(b.ops.pack_matrix, panels(row+n)-row/C.PANEL, 1)
}

// Unpack writes all of m, row-major, into dst.
func (b *Backend) Unpack(dst kernels.Buffer, m kernels.Matrix) {
	defer b.release()
	a := args[C.grpo_unpack_matrix](b)
	a.m = b.matrix("Unpack: m", m)
	a.rows = b.f32("Unpack: dst", dst, m.Rows()*m.Cols())
	b.run(b.ops.unpack_matrix, panels(m.Rows()), 1)
}

func checkOpen(op string, m kernels.Matrix) {
	if m, ok := m.(*matrix); ok && m.settled {
		panic(fmt.Sprintf("cpu: %s: the matrix has been settled", op))
	}
}

func checkRows(op string, m kernels.Matrix, row, n int) {
	if row < 0 || row+n > m.Rows() {
		panic(fmt.Sprintf("cpu: %s: rows [%d, %d) of a matrix of %d", op, row, row+n, m.Rows()))
	}
}
