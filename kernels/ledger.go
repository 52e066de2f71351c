package kernels

import "unsafe"

// Ledger is a backend that holds nothing and computes nothing: it adds up what another one would have to hold. Whatever
// is opened on a ledger makes the allocations that it would make on the other, so a plan of memory cannot forget one.
// Operations panic: there are no numbers to work on.
type Ledger struct {
	Backend // that it speaks for
	sizes   Sizer
	bytes   int
	host    int // besides
}

// Sizer is what a backend may tell of the memory that it takes beyond the numbers themselves.
type Sizer interface {
	// MatrixSize is the memory of a matrix: as it is written, and as Compress usually leaves it.
	MatrixSize(t DType, rows, cols int) (written, kept int)
	// CacheSize is the memory of a cache.
	CacheSize(h Heads, t DType, layers, blocks int) int
	// WorkSize is the most that operations on batches of that size keep for themselves.
	WorkSize(w Work) int
}

// Work says how large the operations of a program get.
type Work struct {
	Heads
	Hidden, Intermediate, Vocab int
	Rows, Longest               int  // of a batch, and of a sequence in it
	Low                         int  // the most columns between the two matrices of an adapter; 0: there is none
	Sequences                   int  // that are decoded at a time
	Trees                       int  // the most sequences that may go on from one another; 0: none do
	Gradients, Whole            bool // what is differentiated: something, and all weights
	Trained                     int  // numbers that have a gradient
}

// NewLedger gives an empty ledger for a backend.
func NewLedger(b Backend) *Ledger {
	l := &Ledger{Backend: b}
	l.sizes, _ = inside(b).(Sizer)
	return l
}

// Take gives what was added up since the last call: of the backend's memory, and what goes with it on the host.
func (l *Ledger) Take() (bytes, host int) {
	bytes, host = l.bytes, l.host
	l.bytes, l.host = 0, 0
	return bytes, host
}

// Total is what was added up, which goes on.
func (l *Ledger) Total() (bytes, host int) { return l.bytes, l.host }

// Host makes a slice on the host that goes with memory of the backend; on a ledger it is noted and nil.
func Host[T int32 | float32 | float64](b Backend, n int) []T {
	if l, ok := b.(*Ledger); ok {
		var zero T
		l.host += n * int(unsafe.Sizeof(zero))
		return nil
	}
	return make([]T, n)
}

// WorkSize is the backend's, or 0 where it says nothing.
func (l *Ledger) WorkSize(w Work) int {
	if l.sizes == nil {
		return 0
	}
	return l.sizes.WorkSize(w)
}

// noted is a buffer that is not there, or a slice of one.
type noted struct {
	t     DType
	n     int
	bytes *int // of the whole; −1 when it has been released
}

func (b *noted) DType() DType   { return b.t }
func (b *noted) Len() int       { return b.n }
func (b *noted) Released() bool { return *b.bytes < 0 }

func (b *noted) Slice(from, to int) Buffer {
	CheckSlice(b.n, from, to)
	return &noted{b.t, to - from, b.bytes}
}

// Alloc notes a buffer.
func (l *Ledger) Alloc(t DType, n int) (Buffer, error) {
	bytes := n * t.Size()
	l.bytes += bytes
	return &noted{t, n, &bytes}, nil
}

// Release takes a buffer off the sum.
func (l *Ledger) Release(b Buffer) {
	n := b.(*noted)
	l.bytes -= *n.bytes
	*n.bytes = -1
}

// notedMatrix is a matrix that is not there.
type notedMatrix struct {
	t                 DType
	rows, cols, bytes int
	compressed        bool
}

func (m *notedMatrix) DType() DType     { return m.t }
func (m *notedMatrix) Rows() int        { return m.rows }
func (m *notedMatrix) Cols() int        { return m.cols }
func (m *notedMatrix) Bytes() int       { return m.bytes }
func (m *notedMatrix) Compressed() bool { return m.compressed }

// NewMatrix notes a matrix.
func (l *Ledger) NewMatrix(t DType, rows, cols int) (Matrix, error) {
	m := &notedMatrix{t: t, rows: rows, cols: cols}
	m.bytes, _ = l.matrixSize(m)
	l.bytes += m.bytes
	return m, nil
}

func (l *Ledger) matrixSize(m *notedMatrix) (written, kept int) {
	if l.sizes == nil {
		n := m.rows * m.cols * m.t.Size()
		return n, n
	}
	return l.sizes.MatrixSize(m.t, m.rows, m.cols)
}

// Compress notes what is saved.
func (l *Ledger) Compress(m Matrix) error {
	n := m.(*notedMatrix)
	if !n.compressed {
		_, kept := l.matrixSize(n)
		l.bytes += kept - n.bytes
		n.bytes, n.compressed = kept, true
	}
	return nil
}

// newQuantised notes a matrix of four bits a weight, or of bf16 where the backend cannot keep it so.
func (l *Ledger) newQuantised(t DType, parts []Quantised) (Matrix, error) {
	bytes := 0
	if q, ok := inside(l.Backend).(Quantiser); ok {
		bytes = q.QuantisedSize(parts)
	}
	if bytes == 0 {
		m, err := l.NewMatrix(t.unquantised(), rowsOf(parts), parts[0].Cols)
		if err != nil {
			return nil, err
		}
		return m, l.Compress(m)
	}
	l.bytes += bytes
	return &notedMatrix{t: t, rows: rowsOf(parts), cols: parts[0].Cols, bytes: bytes, compressed: true}, nil
}

// notedCache is a cache that is not there.
type notedCache struct {
	heads                 Heads
	t                     DType
	layers, blocks, bytes int
}

func (c *notedCache) Heads() Heads { return c.heads }
func (c *notedCache) DType() DType { return c.t }
func (c *notedCache) Layers() int  { return c.layers }
func (c *notedCache) Blocks() int  { return c.blocks }
func (c *notedCache) Bytes() int   { return c.bytes }

// NewCache notes a cache.
func (l *Ledger) NewCache(h Heads, t DType, layers, blocks int) (Cache, error) {
	c := &notedCache{h, t, layers, blocks, 2 * layers * blocks * l.CacheBlock() * h.KV * h.Dim * t.Size()}
	if l.sizes != nil {
		c.bytes = l.sizes.CacheSize(h, t, layers, blocks)
	}
	l.bytes += c.bytes
	return c, nil
}

// Nothing is moved.

func (l *Ledger) Upload(Buffer, any)         {}
func (l *Ledger) Fetch(any, Buffer)          {}
func (l *Ledger) Download(any, Buffer) error { return nil }
func (l *Ledger) Zero(Buffer)                {}
func (l *Ledger) Copy(Buffer, Buffer)        {}
func (l *Ledger) Load(Matrix, int, HostRows) {}
func (l *Ledger) Pack(Matrix, int, Buffer)   {}
func (l *Ledger) Unpack(Buffer, Matrix)      {}
func (l *Ledger) Sync() error                { return nil }

// Close leaves the backend open: it is not the ledger's.
func (l *Ledger) Close() error { return nil }
