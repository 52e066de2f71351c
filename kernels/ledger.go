package kernels

import "unsafe"

// Ledger is a backend that allocates and computes nothing, but adds up the memory that another backend would allocate. A
// memory plan opens a model on a ledger: it makes the same allocations as in a run, so the plan cannot miss one.
// Operations panic, as there is no memory to work on.
type Ledger struct {
	Backend // the backend that is planned for
	sizes   Sizer
	bytes   int // memory of the backend
	host    int // memory on the host that goes with it
}

// Sizer is implemented by backends whose memory is not simply the number of elements times their size.
type Sizer interface {
	// MatrixSize is the memory of a matrix: as it is written, and as Compress usually leaves it.
	MatrixSize(t DType, rows, cols int) (written, kept int)
	// CacheSize is the memory of a cache.
	CacheSize(h Heads, t DType, layers, blocks int) int
	// WorkSize is the most scratch memory of operations on batches of that size.
	WorkSize(w Work) int
}

// Work has the largest sizes of the operations of a program.
type Work struct {
	Heads
	Hidden, Intermediate, Vocab int
	Rows, Longest               int  // rows of a batch, and of the longest sequence in it
	Low                         int  // the most columns of an adapter's intermediate A·x; 0: no adapter
	Sequences                   int  // sequences that are decoded at once
	Trees                       int  // the most sequences that share a prefix; 0: no prefixes are shared
	Gradients, Whole            bool // whether there is a backward pass, and whether it is by all weights
	Trained                     int  // number of trained parameters
}

// NewLedger makes an empty ledger for a backend.
func NewLedger(b Backend) *Ledger {
	l := &Ledger{Backend: b}
	l.sizes, _ = unwrap(b).(Sizer)
	return l
}

// Take returns the memory of backend and host that was added up since the last call of Take, and starts again from 0.
func (l *Ledger) Take() (bytes, host int) {
	bytes, host = l.bytes, l.host
	l.bytes, l.host = 0, 0
	return bytes, host
}

// Total is what Take would return, without starting again.
func (l *Ledger) Total() (bytes, host int) { return l.bytes, l.host }

// Host makes a slice on the host that goes with memory of the backend. On a ledger it only adds to the sum, and returns nil.
func Host[T int32 | float32 | float64](b Backend, n int) []T {
	if l, ok := b.(*Ledger); ok {
		var zero T
		l.host += n * int(unsafe.Sizeof(zero))
		return nil
	}
	return make([]T, n)
}

// WorkSize is that of the backend, or 0 if it is no Sizer.
func (l *Ledger) WorkSize(w Work) int {
	if l.sizes == nil {
		return 0
	}
	return l.sizes.WorkSize(w)
}

// noted is a buffer without memory, or a slice of one.
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

// Alloc adds a buffer to the sum.
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

// notedMatrix is a matrix without memory.
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

// NewMatrix adds a matrix to the sum.
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

// Compress takes off the sum what compression usually saves.
func (l *Ledger) Compress(m Matrix) error {
	n := m.(*notedMatrix)
	if !n.compressed {
		_, kept := l.matrixSize(n)
		l.bytes += kept - n.bytes
		n.bytes, n.compressed = kept, true
	}
	return nil
}

// newQuantised adds a 4-bit matrix to the sum, or one of bf16 if the backend cannot store it in 4 bits.
func (l *Ledger) newQuantised(t DType, parts []Quantised) (Matrix, error) {
	bytes := 0
	if q, ok := unwrap(l.Backend).(Quantiser); ok {
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

// notedCache is a KV cache without memory.
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

// NewCache adds a KV cache to the sum.
func (l *Ledger) NewCache(h Heads, t DType, layers, blocks int) (Cache, error) {
	c := &notedCache{h, t, layers, blocks, 2 * layers * blocks * l.CacheBlock() * h.KV * h.Dim * t.Size()}
	if l.sizes != nil {
		c.bytes = l.sizes.CacheSize(h, t, layers, blocks)
	}
	l.bytes += c.bytes
	return c, nil
}

// The methods that move data do nothing.

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
