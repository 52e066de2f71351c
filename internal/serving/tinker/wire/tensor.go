package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// DType is the element type of a tensor.
type DType int64

// The types that requests use.
const (
	F32 DType = 1
	I64 DType = 2
)

// Tensor is a dense array of numbers; sparse ones are expanded when they are read.
type Tensor struct {
	DType  DType
	Shape  []int64
	Floats []float32 // if F32
	Ints   []int64   // if I64
}

// Len is the number of elements.
func (t Tensor) Len() int { return max(len(t.Floats), len(t.Ints)) }

// Floats1 is a one-dimensional tensor of floats, Ints1 one of integers.
func Floats1(values []float32) Tensor {
	return Tensor{DType: F32, Shape: []int64{int64(len(values))}, Floats: values}
}

// Ints1 is a one-dimensional tensor of integers.
func Ints1[T int32 | int64](values []T) Tensor {
	t := Tensor{DType: I64, Shape: []int64{int64(len(values))}, Ints: make([]int64, len(values))}
	for i, v := range values {
		t.Ints[i] = int64(v)
	}
	return t
}

// sparse is a matrix in compressed sparse row format.
type sparse struct{ values, rows, cols []byte }

// readTensor decodes a tensor, and subtracts its elements from those that the request may still have.
func readTensor(message []byte, left *int) (t Tensor, err error) {
	var dense []byte
	var csr *sparse
	err = fields(message, func(f field) (err error) {
		switch f.num {
		case 1:
			dense, err = f.message()
			csr = nil
		case 2:
			var m []byte
			if m, err = f.message(); err == nil {
				csr, err = readSparse(m)
			}
		case 3:
			var n int64
			n, err = f.number()
			t.DType = DType(n)
		case 4:
			t.Shape, err = f.numbers(t.Shape, maxDims)
		}
		return err
	})
	if err != nil {
		return t, err
	}
	return t, t.fill(dense, csr, left)
}

func readSparse(message []byte) (*sparse, error) {
	s := &sparse{}
	return s, fields(message, func(f field) (err error) {
		switch f.num {
		case 1:
			s.values, err = f.message()
		case 2:
			s.rows, err = f.message()
		case 3:
			s.cols, err = f.message()
		}
		return err
	})
}

// fill sets the elements of the tensor.
func (t *Tensor) fill(dense []byte, csr *sparse, left *int) error {
	size, ok := map[DType]int{F32: 4, I64: 8}[t.DType]
	if !ok {
		return malformed("tensor of type %d, expected 1 (f32) or 2 (i64)", t.DType)
	}
	n, err := t.count(len(dense)/size, *left)
	if err != nil {
		return err
	}
	*left -= n
	if csr != nil {
		return t.expand(csr, n, size)
	}
	if len(dense) != n*size {
		return malformed("tensor of %d bytes for %d numbers", len(dense), n)
	}
	t.allot(n)
	for i := range n {
		t.set(i, dense[i*size:])
	}
	return nil
}

// count is the number of elements by the shape; without a shape, the tensor has one dimension.
func (t *Tensor) count(dense, left int) (int, error) {
	if len(t.Shape) == 0 {
		t.Shape = []int64{int64(dense)}
	}
	n := int64(1)
	for _, d := range t.Shape {
		if most := int64(left); d < 0 || d > most || n*d > most {
			return 0, tooMuch(fmt.Sprintf("shape %v, expected at most %d numbers in all tensors of a request", t.Shape, MaxElements))
		}
		n *= d
	}
	return int(n), nil
}

func (t *Tensor) allot(n int) {
	if t.DType == F32 {
		t.Floats = make([]float32, n)
	} else {
		t.Ints = make([]int64, n)
	}
}

func (t *Tensor) set(i int, from []byte) {
	if t.DType == F32 {
		t.Floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(from))
	} else {
		t.Ints[i] = int64(binary.LittleEndian.Uint64(from))
	}
}

// expand expands a sparse matrix to n elements of size bytes.
func (t *Tensor) expand(s *sparse, n, size int) error {
	if len(t.Shape) != 2 {
		return malformed("sparse tensor of shape %v, expected two dimensions", t.Shape)
	}
	rows, width, entries := t.Shape[0], t.Shape[1], len(s.values)/size
	if len(s.values) != entries*size || len(s.cols) != 8*entries || int64(len(s.rows)) != 8*(rows+1) {
		return malformed("sparse tensor of shape %v with %d bytes of values, %d of columns and %d of rows",
			t.Shape, len(s.values), len(s.cols), len(s.rows))
	}
	at := func(list []byte, i int64) int64 { return int64(binary.LittleEndian.Uint64(list[8*i:])) }
	if at(s.rows, 0) != 0 || at(s.rows, rows) != int64(entries) {
		return malformed("sparse tensor whose rows do not hold its %d values", entries)
	}
	t.allot(n)
	for r := range rows {
		from, to := at(s.rows, r), at(s.rows, r+1)
		if from > to || to > int64(entries) || from < 0 {
			return malformed("sparse tensor with row %d from %d to %d", r, from, to)
		}
		for k := from; k < to; k++ {
			c := at(s.cols, k)
			if c < 0 || c >= width {
				return malformed("sparse tensor with column %d of %d", c, width)
			}
			t.set(int(r*width+c), s.values[k*int64(size):])
		}
	}
	return nil
}

// append encodes the tensor, dense.
func (t Tensor) append(b []byte) []byte {
	b = appendMessage(b, 1, t.raw())
	b = appendNumber(b, 3, int64(t.DType))
	return appendPacked(b, 4, t.Shape)
}

// raw are the elements as bytes.
func (t Tensor) raw() []byte {
	if t.DType == F32 {
		return floatBytes(t.Floats)
	}
	return longBytes(t.Ints)
}

func floatBytes(values []float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func longBytes(values []int64) []byte {
	b := make([]byte, 0, 8*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func intBytes(values []int32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// floatsOf and intsOf decode little-endian arrays.
func floatsOf(b []byte) ([]float32, error) {
	ints, err := intsOf(b)
	values := make([]float32, len(ints))
	for i, v := range ints {
		values[i] = math.Float32frombits(uint32(v))
	}
	return values, err
}

func intsOf(b []byte) ([]int32, error) {
	if len(b)%4 != 0 {
		return nil, malformed("array of %d bytes, expected four for each number", len(b))
	}
	values := make([]int32, len(b)/4)
	for i := range values {
		values[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return values, nil
}

func appendDouble(b []byte, num protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, num, protowire.Fixed64Type), math.Float64bits(v))
}
