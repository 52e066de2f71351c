package kernels

func (k *checked) Alloc(t DType, n int) (Buffer, error) {
	c := k.call("Alloc")
	if t != F32 && t != I32 && t != F64 && (t != BF16 || !Narrows(k.b) && RoundsRows(k.b, Tiles) == nil) {
		c.fail("%v buffers do not exist, expected f32, i32 or f64", t)
	}
	c.size("n", n, 0)
	return k.b.Alloc(t, n)
}

func (k *checked) Release(b Buffer) {
	c := k.call("Release")
	c.usable("b", b)
	k.b.Release(b)
}

// CheckRelease checks Memory.Release: whether a buffer is the whole of what Alloc gave is known to the backend alone.
func CheckRelease(whole bool) {
	if !whole {
		checker("Release").fail("b is a slice of a buffer, expected all of it")
	}
}

func (k *checked) Free() (Room, bool) {
	k.call("Free")
	return k.b.Free()
}

// CheckSlice checks Buffer.Slice for a buffer of n elements. It is the one call that no wrapper sees, since buffers
// are handed through as they are: the Slice of every backend begins with it.
func CheckSlice(n, from, to int) {
	if from < 0 || to < from || n < to {
		checker("Slice").fail("[%d, %d) of %d elements", from, to, n)
	}
}

func (k *checked) NewMatrix(t DType, rows, cols int) (Matrix, error) {
	c := k.call("NewMatrix")
	if t != F32 && t != BF16 && t != BF16Rounding {
		c.fail("%v matrices do not exist, expected f32, bf16 or rounding bf16", t)
	}
	c.size("rows", rows, 1)
	c.size("cols", cols, 1)
	return k.b.NewMatrix(t, rows, cols)
}

func (k *checked) Upload(dst Buffer, src any) {
	k.call("Upload").host("dst", dst, src)
	k.b.Upload(dst, src)
}

func (k *checked) Fetch(dst any, src Buffer) {
	k.call("Fetch").host("src", src, dst)
	k.b.Fetch(dst, src)
}

func (k *checked) Download(dst any, src Buffer) error {
	k.call("Download").host("src", src, dst)
	return k.b.Download(dst, src)
}

// host checks a buffer against the Go slice that it is filled from or read into.
func (c checker) host(name string, b Buffer, slice any) {
	switch s := slice.(type) {
	case []float32:
		c.f32(name, b, len(s))
	case []int32:
		c.i32(name, b, len(s))
	case []float64:
		c.f64(name, b, len(s))
	default:
		c.fail("the Go side is %T, expected []float32, []int32 or []float64", slice)
	}
}

func (k *checked) Zero(dst Buffer) {
	c := k.call("Zero")
	c.usable("dst", dst)
	k.b.Zero(dst)
}

func (k *checked) Copy(dst, src Buffer) {
	c := k.call("Copy")
	c.usable("src", src)
	c.buffer("dst", dst, src.DType(), src.Len())
	k.b.Copy(dst, src)
}

func (k *checked) Load(m Matrix, row int, src HostRows) {
	c := k.call("Load")
	c.writable(m)
	if src.Encoding > EncodedF32 {
		c.fail("encoding %d is not known", src.Encoding)
	}
	if m.DType() != F32 && src.Encoding != EncodedBF16 {
		c.fail("a bf16 matrix takes bf16 rows only")
	}
	size := m.Cols() * src.Encoding.Size()
	n := len(src.Bytes) / size
	if n*size != len(src.Bytes) {
		c.fail("src has %d bytes, expected rows of %d", len(src.Bytes), size)
	}
	c.inside(m, row, n)
	k.b.Load(m, row, src)
}

func (k *checked) Pack(m Matrix, row int, src Buffer) {
	c := k.call("Pack")
	c.writable(m)
	if m.DType() == I16Rounding {
		c.fail("m is %v, expected f32 or bf16", m.DType())
	}
	c.f32("src", src, 0)
	n := src.Len() / m.Cols()
	if n*m.Cols() != src.Len() {
		c.fail("src has %d elements, expected rows of %d", src.Len(), m.Cols())
	}
	c.inside(m, row, n)
	k.b.Pack(m, row, src)
}

func (c checker) writable(m Matrix) {
	c.matrix("m", m)
	if m.Compressed() {
		c.fail("m has been compressed, and is only read from then on")
	}
}

// inside checks that m has rows [row, row+n).
func (c checker) inside(m Matrix, row, n int) {
	if row < 0 || row+n > m.Rows() {
		c.fail("rows [%d, %d) of a matrix of %d rows", row, row+n, m.Rows())
	}
}

func (k *checked) Compress(m Matrix) error {
	k.call("Compress").matrix("m", m)
	return k.b.Compress(m)
}

func (k *checked) Unpack(dst Buffer, m Matrix) {
	c := k.call("Unpack")
	c.matrix("m", m)
	c.f32("dst", dst, m.Rows()*m.Cols())
	k.b.Unpack(dst, m)
}

func (k *checked) Sync() error {
	k.call("Sync")
	return k.b.Sync()
}

func (k *checked) Close() error {
	k.call("Close")
	k.closed = true
	return k.b.Close()
}
