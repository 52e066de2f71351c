package kernels

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/memory"
)

// DType is the element type of a buffer or a matrix. For a matrix it also selects how products with it round.
type DType uint8

const (
	F32  DType = iota // activations, parameters, gradients
	I32               // token ids, positions, sequence starts
	F64               // sums: losses, norms
	BF16              // frozen weights, in a Matrix; keys and values, in a Cache; activations kept for the backward pass of a Narrower

	// BF16Rounding is a Matrix of bf16 weights whose products first round the other factor to bf16, ties to even, too;
	// subnormal numbers may count as zero. Sums are F32 all the same.
	BF16Rounding

	// I16Rounding is a Matrix of 4-bit weights that NewQuantised makes. If every 64 inputs of a row share a scale, Linear multiplies
	// integers, else as with BF16, and so do all other operations. Inputs are rounded to 15 bits, relative to the largest of their
	// 64, the 16 values to 12 bits, relative to the largest of them, and a product of 64 is exact. With a_i the inputs and v_i the
	// values,
	//   p = 16383 / max|a|, u = 2047 / max|v|, sum of the row = Σ over 64s, in ascending order, of
	//     (Σ round(p·a_i) · round(u·v_i)) / (p·u) · scale of the weights.
	// If the largest of 64 inputs is below 2^-100, they count as zeros; if one is not finite, no output is.
	I16Rounding
)

// Size is the number of bytes of one element.
func (d DType) Size() int {
	switch d {
	case F64:
		return 8
	case BF16, BF16Rounding, I16Rounding:
		return 2
	}
	return 4
}

func (d DType) String() string {
	switch d {
	case F32:
		return "f32"
	case I32:
		return "i32"
	case F64:
		return "f64"
	case BF16:
		return "bf16"
	case BF16Rounding:
		return "rounding bf16"
	case I16Rounding:
		return "rounding i16"
	}
	return fmt.Sprintf("DType(%d)", uint8(d))
}

// Buffer is an array in a backend's memory, opaque to the layers above.
type Buffer interface {
	DType() DType
	Len() int
	// Slice is the view of elements [from, to): the same memory, no copy. It begins with CheckSlice.
	Slice(from, to int) Buffer
	Released() bool // whether Release has given the memory back
}

// Matrix is a weight of N rows (outputs) and K columns (inputs), in a layout that the backend chooses.
// Load and Pack write it, operations read it.
type Matrix interface {
	DType() DType // BF16, BF16Rounding, I16Rounding or F32
	Rows() int
	Cols() int
	Bytes() int       // its memory, padding included
	Compressed() bool // whether Compress was called: it is read-only since
}

// HostRows are consecutive rows of a row-major matrix, in the encoding of a file.
type HostRows struct {
	Encoding Encoding
	Bytes    []byte // little endian, rows × cols elements
}

// Encoding is the encoding of a number in a file.
type Encoding uint8

const (
	EncodedBF16 Encoding = iota
	EncodedF16
	EncodedF32
)

// Size is the number of bytes of one number.
func (e Encoding) Size() int {
	if e == EncodedF32 {
		return 4
	}
	return 2
}

// Room is an amount of free memory, and what sets the limit.
type Room = memory.Room

// Memory allocates in a backend, and moves numbers into, inside and out of it.
type Memory interface {
	// Alloc returns a zeroed buffer. The garbage collector frees it, or Release.
	Alloc(t DType, n int) (Buffer, error)
	// Release frees a buffer of Alloc (not a slice) once all queued work has run. Neither the buffer nor a slice of it
	// may be used any more. A caller that grows a buffer releases the old one first, so that both never exist at the
	// same time.
	Release(b Buffer)
	// Free is the memory that the device has left for this process; false if unknown.
	Free() (Room, bool)
	// NewMatrix returns a matrix with undefined content.
	NewMatrix(t DType, rows, cols int) (Matrix, error)

	// Upload copies src ([]float32, []int32 or []float64, as dst's type says) into the start of dst.
	// src may be reused when the call returns.
	Upload(dst Buffer, src any)
	// Fetch queues a copy of the start of src into dst, a slice of src's type. dst is valid after the next Sync or
	// Download.
	Fetch(dst any, src Buffer)
	// Download is Fetch followed by Sync.
	Download(dst any, src Buffer) error
	Zero(dst Buffer)
	// Copy copies len(src) elements into the start of dst.
	Copy(dst, src Buffer)

	// Load writes rows [row, row+n) of m from a file's bytes, where n is what src holds. A matrix of
	// bf16 takes bf16 only; an F32 matrix takes every encoding, exactly. src may be reused when the call returns.
	Load(m Matrix, row int, src HostRows)
	// Pack writes rows [row, row+n) of a matrix of F32 or bf16 from the row-major buffer src of n × cols elements; those of
	// bf16 are rounded to the nearest, ties to even.
	Pack(m Matrix, row int, src Buffer)
	// Compress makes m read-only, and lets the backend store it in less space, without loss: no result computed with
	// it changes.
	Compress(m Matrix) error
	// Unpack writes all of m, row-major, into dst.
	Unpack(dst Buffer, m Matrix)

	// Sync waits until all queued operations have run and reports the first failure since the last one.
	Sync() error
	// Close waits for queued work and ends the backend's threads. No call may follow.
	Close() error
}

// Cols is a window of N columns, starting at column From, of rows that are Stride elements apart.
type Cols struct {
	Buf             Buffer // F32
	Stride, From, N int
}

// Whole is the window over all n columns of a row-major buffer.
func Whole(b Buffer, n int) Cols { return Cols{Buf: b, Stride: n, N: n} }
