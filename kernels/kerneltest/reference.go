package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

// reference runs each operation at the call, one row after the other, in double precision; numbers
// are rounded to float32 only where they are stored.
type reference struct{}

// NewReference is the backend that reads like the formulas.
func NewReference() kernels.Backend { return kernels.Checked(reference{}) }

func (reference) Order() string { return "double precision" }

func (reference) Name() string { return "reference: plain Go, double precision inside, 1 thread" }

// The reference's buffers are Go slices.
type (
	floats  []float32
	ints    []int32
	doubles []float64
)

func (b floats) DType() kernels.DType  { return kernels.F32 }
func (b ints) DType() kernels.DType    { return kernels.I32 }
func (b doubles) DType() kernels.DType { return kernels.F64 }

func (b floats) Len() int  { return len(b) }
func (b ints) Len() int    { return len(b) }
func (b doubles) Len() int { return len(b) }

func (b floats) Slice(from, to int) kernels.Buffer {
	kernels.CheckSlice(len(b), from, to)
	return b[from:to:to]
}

func (b ints) Slice(from, to int) kernels.Buffer {
	kernels.CheckSlice(len(b), from, to)
	return b[from:to:to]
}

func (b doubles) Slice(from, to int) kernels.Buffer {
	kernels.CheckSlice(len(b), from, to)
	return b[from:to:to]
}

// own is a buffer as the reference made it: floats, ints or doubles.
func own[S floats | ints | doubles](b kernels.Buffer) S {
	s, ok := b.(S)
	if !ok {
		panic(fmt.Sprintf("kerneltest: the reference was given a %T, expected a buffer of its own", b))
	}
	return s
}

// row is row t of a row-major buffer of rows of n numbers.
func row(b kernels.Buffer, n, t int) []float32 { return own[floats](b)[t*n : (t+1)*n] }

// window is what c shows of row t.
func window(c kernels.Cols, t int) []float32 {
	from := t*c.Stride + c.From
	return own[floats](c.Buf)[from : from+c.N]
}

// matrix is row-major float32, whatever it was made for.
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
		panic(fmt.Sprintf("kerneltest: the reference was given a %T, expected a matrix of its own", w))
	}
	return m
}

func (reference) Alloc(t kernels.DType, n int) (kernels.Buffer, error) {
	switch t {
	case kernels.I32:
		return make(ints, n), nil
	case kernels.F64:
		return make(doubles, n), nil
	}
	return make(floats, n), nil
}

func (reference) NewMatrix(t kernels.DType, rows, cols int) (kernels.Matrix, error) {
	return &matrix{t: t, rows: rows, cols: cols, data: make([]float32, rows*cols)}, nil
}

func (reference) Upload(dst kernels.Buffer, src any) {
	switch s := src.(type) {
	case []float32:
		copy(own[floats](dst), s)
	case []int32:
		copy(own[ints](dst), s)
	case []float64:
		copy(own[doubles](dst), s)
	}
}

func (reference) Download(dst any, src kernels.Buffer) error {
	switch d := dst.(type) {
	case []float32:
		copy(d, own[floats](src))
	case []int32:
		copy(d, own[ints](src))
	case []float64:
		copy(d, own[doubles](src))
	}
	return nil
}

func (reference) Zero(dst kernels.Buffer) {
	switch d := dst.(type) {
	case floats:
		clear(d)
	case ints:
		clear(d)
	default:
		clear(own[doubles](dst))
	}
}

func (reference) Copy(dst, src kernels.Buffer) {
	switch s := src.(type) {
	case floats:
		copy(own[floats](dst), s)
	case ints:
		copy(own[ints](dst), s)
	default:
		copy(own[doubles](dst), own[doubles](src))
	}
}

func (reference) Load(w kernels.Matrix, first int, src kernels.HostRows) {
	m := ownMatrix(w)
	size := src.Encoding.Size()
	for i := 0; i*size < len(src.Bytes); i++ {
		m.data[first*m.cols+i] = decode(src.Encoding, src.Bytes[i*size:])
	}
}

// decode reads one number of a file.
func decode(e kernels.Encoding, b []byte) float32 {
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
	m := ownMatrix(w)
	copy(m.data[first*m.cols:], own[floats](src))
}

func (reference) Unpack(dst kernels.Buffer, w kernels.Matrix) {
	copy(own[floats](dst), ownMatrix(w).data)
}

// Compress has nothing to gain.
func (reference) Compress(m kernels.Matrix) error {
	ownMatrix(m).compressed = true
	return nil
}

func (reference) Sync() error  { return nil }
func (reference) Close() error { return nil }
