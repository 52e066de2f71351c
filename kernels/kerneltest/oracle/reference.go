// Package oracle is the contract of package kernels in plain Go: the specification of every operation, against which other
// backends are tested.
package oracle

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

// reference runs each operation at the call, row by row, in double precision; numbers are rounded to
// float32 only when they are stored.
type reference struct{}

// New returns the reference backend.
func New() kernels.Backend { return kernels.Checked(reference{}) }

func (reference) Order() string { return "double precision" }

func (reference) Name() string { return "reference: plain Go, double precision inside, 1 thread" }

// number is an element type of the reference's buffers.
type number interface {
	float32 | int32 | float64 | uint16
}

// buffer is a Go slice, or a part of one. All parts know when it has been released.
type buffer[E number] struct {
	data  []E
	whole *int // the numbers of all of it; −1 when it has been released
}

func newBuffer[E number](n int) buffer[E] { return buffer[E]{make([]E, n), &n} }

func (b buffer[E]) DType() kernels.DType {
	switch any(b.data).(type) {
	case []int32:
		return kernels.I32
	case []float64:
		return kernels.F64
	case []uint16:
		return kernels.BF16
	}
	return kernels.F32
}

func (b buffer[E]) Len() int       { return len(b.data) }
func (b buffer[E]) Released() bool { return *b.whole < 0 }

func (b buffer[E]) Slice(from, to int) kernels.Buffer {
	kernels.CheckSlice(len(b.data), from, to)
	return buffer[E]{b.data[from:to:to], b.whole}
}

func (b buffer[E]) clear() { clear(b.data) }

func (b buffer[E]) release() {
	kernels.CheckRelease(len(b.data) == *b.whole)
	*b.whole = -1
}

// anyBuffer is a buffer of the reference.
type anyBuffer interface {
	release()
	clear()
}

// own returns the numbers of a buffer of the reference.
func own[E number](b kernels.Buffer) []E {
	s, ok := b.(buffer[E])
	if !ok {
		panic(fmt.Sprintf("oracle: it was given a %T, expected a buffer of its own", b))
	}
	return s.data
}

// row is row t of a row-major buffer of rows of n numbers; of BF16 a copy, to read.
func row(b kernels.Buffer, n, t int) []float32 {
	if b.DType() == kernels.BF16 {
		return widened(own[uint16](b)[t*n : (t+1)*n])
	}
	return own[float32](b)[t*n : (t+1)*n]
}

// window is the part of row t that is in the columns c.
func window(c kernels.Cols, t int) []float32 {
	from := t*c.Stride + c.From
	return own[float32](c.Buf)[from : from+c.N]
}

// matrix is row-major float32, whatever its type is.
type matrix struct {
	t          kernels.DType
	rows, cols int
	data       []float32
	compressed bool
}

func (m *matrix) DType() kernels.DType { return m.t }
func (m *matrix) Rows() int            { return m.rows }
func (m *matrix) Cols() int            { return m.cols }
func (m *matrix) Bytes() int           { return 4 * len(m.data) }
func (m *matrix) Compressed() bool     { return m.compressed }
func (m *matrix) row(r int) []float32  { return m.data[r*m.cols : (r+1)*m.cols] }

func ownMatrix(w kernels.Matrix) *matrix {
	m, ok := w.(*matrix)
	if !ok {
		panic(fmt.Sprintf("oracle: it was given a %T, expected a matrix of its own", w))
	}
	return m
}

func (reference) Alloc(t kernels.DType, n int) (kernels.Buffer, error) {
	switch t {
	case kernels.I32:
		return newBuffer[int32](n), nil
	case kernels.F64:
		return newBuffer[float64](n), nil
	case kernels.BF16:
		return newBuffer[uint16](n), nil
	}
	return newBuffer[float32](n), nil
}

// ownAny is a buffer that the reference made, whatever its numbers are.
func ownAny(b kernels.Buffer) anyBuffer {
	s, ok := b.(anyBuffer)
	if !ok {
		panic(fmt.Sprintf("oracle: it was given a %T, expected a buffer of its own", b))
	}
	return s
}

func (reference) Release(b kernels.Buffer) { ownAny(b).release() }

func (reference) Free() (kernels.Room, bool) { return kernels.Room{}, false }

func (reference) NewMatrix(t kernels.DType, rows, cols int) (kernels.Matrix, error) {
	return &matrix{t: t, rows: rows, cols: cols, data: make([]float32, rows*cols)}, nil
}

func (reference) Upload(dst kernels.Buffer, src any) {
	switch s := src.(type) {
	case []float32:
		copy(own[float32](dst), s)
	case []int32:
		copy(own[int32](dst), s)
	case []float64:
		copy(own[float64](dst), s)
	}
}

func (reference) Fetch(dst any, src kernels.Buffer) {
	switch d := dst.(type) {
	case []float32:
		copy(d, own[float32](src))
	case []int32:
		copy(d, own[int32](src))
	case []float64:
		copy(d, own[float64](src))
	}
}

func (r reference) Download(dst any, src kernels.Buffer) error {
	r.Fetch(dst, src)
	return nil
}

func (reference) Zero(dst kernels.Buffer) { ownAny(dst).clear() }

func (reference) Copy(dst, src kernels.Buffer) {
	switch src.DType() {
	case kernels.I32:
		copy(own[int32](dst), own[int32](src))
	case kernels.F64:
		copy(own[float64](dst), own[float64](src))
	case kernels.BF16:
		copy(own[uint16](dst), own[uint16](src))
	default:
		copy(own[float32](dst), own[float32](src))
	}
}

func (reference) Load(w kernels.Matrix, first int, src kernels.HostRows) {
	m := ownMatrix(w)
	size := src.Encoding.Size()
	for i := 0; i*size < len(src.Bytes); i++ {
		m.data[first*m.cols+i] = Decode(src.Encoding, src.Bytes[i*size:])
	}
}

// Decode reads one number of a file.
func Decode(e kernels.Encoding, b []byte) float32 {
	switch e {
	case kernels.EncodedF32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case kernels.EncodedBF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	}
	// Half precision: sign, five bits of exponent, ten bits of fraction.
	bits := binary.LittleEndian.Uint16(b)
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	var x float64
	switch exponent {
	case 0:
		x = math.Ldexp(fraction, -24)
	case 31:
		x = math.Inf(1)
		if fraction != 0 {
			x = math.NaN()
		}
	default:
		x = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits>>15 == 1 {
		x = -x
	}
	return float32(x)
}

func (reference) Pack(w kernels.Matrix, first int, src kernels.Buffer) {
	m, rows := ownMatrix(w), own[float32](src)
	if m.t != kernels.F32 {
		rows = RoundedToBF16(rows)
	}
	copy(m.data[first*m.cols:], rows)
}

func (reference) Unpack(dst kernels.Buffer, w kernels.Matrix) {
	copy(own[float32](dst), ownMatrix(w).data)
}

// Compress does nothing.
func (reference) Compress(m kernels.Matrix) error {
	ownMatrix(m).compressed = true
	return nil
}

func (reference) Sync() error  { return nil }
func (reference) Close() error { return nil }
