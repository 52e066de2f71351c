package kernels

import "fmt"

// The shapes that each operation demands. Every backend calls the check of its operation first, so
// that a mistake of the caller panics at the call, in the same words, whatever runs below and whenever
// it runs. A buffer may be longer than the operation needs. What a buffer holds (token ids, positions,
// sequence starts) is not known at the call and not checked here.

// checker is the name of the operation that is being checked.
type checker string

func (c checker) fail(format string, args ...any) {
	panic(fmt.Sprintf("kernels: %s: ", string(c)) + fmt.Sprintf(format, args...))
}

func (c checker) size(name string, n, least int) {
	if n < least {
		c.fail("%s is %d, expected at least %d", name, n, least)
	}
}

func (c checker) buffer(name string, b Buffer, t DType, n int) {
	if b == nil {
		c.fail("%s is nil, expected %v [%d]", name, t, n)
	}
	if b.DType() != t || b.Len() < n {
		c.fail("%s is %v [%d], expected %v [%d]", name, b.DType(), b.Len(), t, n)
	}
}

func (c checker) cols(name string, w Cols, n, T int) {
	if w.N != n || w.From < 0 || w.From+w.N > w.Stride {
		c.fail("%s is columns [%d, %d) of %d, expected %d columns inside the row",
			name, w.From, w.From+w.N, w.Stride, n)
	}
	least := 0
	if T > 0 {
		least = (T-1)*w.Stride + w.From + w.N
	}
	c.buffer(name, w.Buf, F32, least)
}

func (c checker) present(name string, m Matrix) {
	if m == nil {
		c.fail("%s is nil", name)
	}
}

func (c checker) heads(h Heads) {
	if h.Q < 1 || h.KV < 1 || h.Q%h.KV != 0 || h.Dim < 2 || h.Dim%2 != 0 {
		c.fail("heads are %d queries over %d keys of %d, expected a multiple of the keys and an even size",
			h.Q, h.KV, h.Dim)
	}
}

// CheckAlloc checks Memory.Alloc.
func CheckAlloc(t DType, n int) {
	c := checker("Alloc")
	if t != F32 && t != I32 && t != F64 {
		c.fail("%v buffers do not exist, expected f32, i32 or f64", t)
	}
	c.size("n", n, 0)
}

// CheckNewMatrix checks Memory.NewMatrix.
func CheckNewMatrix(t DType, rows, cols int) {
	c := checker("NewMatrix")
	if t != F32 && t != BF16 && t != BF16Rounding {
		c.fail("%v matrices do not exist, expected f32, bf16 or rounding bf16", t)
	}
	c.size("rows", rows, 1)
	c.size("cols", cols, 1)
}

// CheckSlice checks Buffer.Slice for a buffer of n elements.
func CheckSlice(n, from, to int) {
	if from < 0 || to < from || n < to {
		checker("Slice").fail("[%d, %d) of %d elements", from, to, n)
	}
}

// CheckUpload checks Memory.Upload and gives the number of elements.
func CheckUpload(dst Buffer, src any) int {
	return checker("Upload").host("dst", dst, src)
}

// CheckDownload checks Memory.Download and gives the number of elements.
func CheckDownload(dst any, src Buffer) int {
	return checker("Download").host("src", src, dst)
}

// host checks a buffer against the Go slice that it is filled from or read into.
func (c checker) host(name string, b Buffer, slice any) int {
	var t DType
	var n int
	switch s := slice.(type) {
	case []float32:
		t, n = F32, len(s)
	case []int32:
		t, n = I32, len(s)
	case []float64:
		t, n = F64, len(s)
	default:
		c.fail("the Go side is %T, expected []float32, []int32 or []float64", slice)
	}
	c.buffer(name, b, t, n)
	return n
}

// CheckZero checks Memory.Zero.
func CheckZero(dst Buffer) {
	if dst == nil {
		checker("Zero").fail("dst is nil")
	}
}

// CheckCopy checks Memory.Copy.
func CheckCopy(dst, src Buffer) {
	c := checker("Copy")
	if src == nil {
		c.fail("src is nil")
	}
	c.buffer("dst", dst, src.DType(), src.Len())
}

// CheckLoad checks Memory.Load and gives the number of rows.
func CheckLoad(m Matrix, row int, src HostRows) int {
	c := checker("Load")
	c.present("m", m)
	if m.DType() == BF16 && src.Encoding != EncodedBF16 {
		c.fail("a bf16 matrix takes bf16 rows only")
	}
	size := m.Cols() * src.Encoding.Size()
	n := len(src.Bytes) / size
	if n*size != len(src.Bytes) {
		c.fail("src has %d bytes, expected rows of %d", len(src.Bytes), size)
	}
	c.rows(m, row, n)
	return n
}

// CheckPack checks Memory.Pack and gives the number of rows.
func CheckPack(m Matrix, row int, src Buffer) int {
	c := checker("Pack")
	c.present("m", m)
	if m.DType() != F32 {
		c.fail("m is %v, expected f32", m.DType())
	}
	c.buffer("src", src, F32, 0)
	n := src.Len() / m.Cols()
	if n*m.Cols() != src.Len() {
		c.fail("src has %d elements, expected rows of %d", src.Len(), m.Cols())
	}
	c.rows(m, row, n)
	return n
}

func (c checker) rows(m Matrix, row, n int) {
	if row < 0 || row+n > m.Rows() {
		c.fail("rows [%d, %d) of a matrix of %d rows", row, row+n, m.Rows())
	}
}

// CheckUnpack checks Memory.Unpack.
func CheckUnpack(dst Buffer, m Matrix) {
	c := checker("Unpack")
	c.present("m", m)
	c.buffer("dst", dst, F32, m.Rows()*m.Cols())
}
