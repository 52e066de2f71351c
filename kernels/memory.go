package kernels

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/memory"
)

// DType is what a buffer or a matrix is made of.
type DType uint8

const (
	F32  DType = iota // activations, parameters, gradients
	I32               // token ids, positions, sequence starts
	F64               // sums that leave the machine: losses, norms
	BF16              // frozen weights, inside a Matrix; keys and values, inside a Cache; rows that wait, where a backend is a Narrower

	// BF16Rounding are the same weights, in a Matrix that has every number rounded to bf16, ties to even, before
	// it is multiplied with one of them; what is subnormal may count as zero there. Sums are F32 all the same.
	BF16Rounding

	// I16Rounding are weights of four bits, in a Matrix that NewQuantised gives: Linear multiplies it in whole numbers where every 64
	// inputs of a row share a scale, and as BF16 elsewhere; all other operations do as with BF16. Inputs are rounded to 15 bits of the
	// largest of their 64, the 16 values to 12 bits of the largest of them, and a product of 64 is exact. With a_i the inputs and
	// v_i the values,
	//   p = 16383 / max|a|, u = 2047 / max|v|, sum of the row = Σ over 64s, in ascending order, of
	//     (Σ round(p·a_i) · round(u·v_i)) / (p·u) · scale of the weights.
	// Where the largest input is below 2^-100 they are zeros; where one is not finite, no output is.
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

// Buffer is a run of elements in a backend's memory. Nobody above this layer looks inside.
type Buffer interface {
	DType() DType
	Len() int
	// Slice is the view of elements [from, to): the same memory, no copy. It begins with CheckSlice.
	Slice(from, to int) Buffer
	Released() bool // whether Release has given the memory back
}

// Matrix is a weight of N rows (outputs) and K columns (inputs) in whatever layout the backend's
// kernels like best. It is written by Load or Pack and read by operations.
type Matrix interface {
	DType() DType // BF16, BF16Rounding, I16Rounding or F32
	Rows() int
	Cols() int
	Bytes() int       // what it takes, padding included
	Compressed() bool // whether Compress has declared it complete: it is only read from then on
}

// HostRows are consecutive rows of a row-major matrix as a file holds them.
type HostRows struct {
	Encoding Encoding
	Bytes    []byte // little endian, rows × cols elements
}

// Encoding is how a file spells a number.
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

// Memory moves numbers into, inside and out of a backend.
type Memory interface {
	// Alloc gives a zeroed buffer. It is freed with the backend's last reference to it, or by Release.
	Alloc(t DType, n int) (Buffer, error)
	// Release gives the memory of a buffer back when all queued work has run: of one that Alloc gave, not of a slice.
	// Neither the buffer nor a slice of it is used from then on. What grows releases what it has before it allocates
	// anew, so that it never lives twice.
	Release(b Buffer)
	// Free is what the device has left for this process; false where nobody knows.
	Free() (Room, bool)
	// NewMatrix gives a matrix that holds anything until it is written.
	NewMatrix(t DType, rows, cols int) (Matrix, error)

	// Upload copies src ([]float32, []int32 or []float64, as dst's type says) into the start of dst.
	// src may be reused when the call returns.
	Upload(dst Buffer, src any)
	// Fetch queues a copy of the start of src into dst, a slice of src's type: it is there after the next Sync or
	// Download, and nobody looks before.
	Fetch(dst any, src Buffer)
	// Download is Fetch, and Sync.
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
	// Compress says that m is complete: it is only read from now on, and a backend may keep it in less space, without
	// loss. No number that is computed with it changes.
	Compress(m Matrix) error
	// Unpack writes all of m, row-major, into dst.
	Unpack(dst Buffer, m Matrix)

	// Sync waits until all queued operations have run and reports the first failure since the last one.
	Sync() error
	// Close waits and gives the workers back. No call may follow.
	Close() error
}

// Cols is a window of N columns, starting at column From, of rows that are Stride elements apart.
type Cols struct {
	Buf             Buffer // F32
	Stride, From, N int
}

// Whole is the window over all n columns of a row-major buffer.
func Whole(b Buffer, n int) Cols { return Cols{Buf: b, Stride: n, N: n} }
