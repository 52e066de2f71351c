//go:build gpu

package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// matrix is a row-major matrix on the card.
type matrix struct {
	t          kernels.DType
	rows, cols int
	memory     *driver.Memory
	compressed bool  // Compress was called, which must be reported, though it changes nothing
	codes      codes // set for a 4-bit matrix, which has codes instead of elements
}

func (m *matrix) DType() kernels.DType { return m.t }
func (m *matrix) Rows() int            { return m.rows }
func (m *matrix) Cols() int            { return m.cols }
func (m *matrix) Bytes() int           { return int(m.memory.Bytes) }
func (m *matrix) Compressed() bool     { return m.compressed }

// row is the address of a row.
func (m *matrix) row(n int) ptr { return m.memory.At + ptr(n*m.cols*m.t.Size()) }

func ownMatrix(w kernels.Matrix) *matrix {
	m, ok := w.(*matrix)
	if !ok {
		panic(fmt.Sprintf("cuda: the backend was given a %T, expected a matrix of its own", w))
	}
	return m
}

// NewMatrix allocates a matrix without initialising it.
func (b *Backend) NewMatrix(t kernels.DType, rows, cols int) (kernels.Matrix, error) {
	memory, err := b.memory.take(b, int64(rows*cols*t.Size()))
	if err != nil {
		return nil, err
	}
	m := &matrix{t: t, rows: rows, cols: cols, memory: memory}
	runtime.AddCleanup(m, b.memory.orphan, memory)
	return m, nil
}

// loadNumbers is the number of elements that Load converts at a time, and loadCodes rearranges, which bounds host memory.
const loadNumbers = 1 << 18

// Load uploads rows from the encoding of a file. A matrix of f32 accepts every encoding, others only bf16.
func (b *Backend) Load(w kernels.Matrix, row int, src kernels.HostRows) {
	m := ownMatrix(w)
	to := m.row(row)
	if m.t != kernels.F32 || src.Encoding == kernels.EncodedF32 {
		b.note(b.moves.Upload(to, src.Bytes))
		return
	}
	wide := make([]float32, min(loadNumbers, len(src.Bytes)/2))
	for rest := src.Bytes; len(rest) > 0; {
		n := min(len(wide), len(rest)/2)
		for i := range n {
			wide[i] = widened(src.Encoding, binary.LittleEndian.Uint16(rest[2*i:]))
		}
		b.note(b.moves.Upload(to, raw(wide[:n])))
		rest, to = rest[2*n:], to+ptr(4*n)
	}
}

// widened converts a 16-bit float to 32 bits.
func widened(e kernels.Encoding, bits uint16) float32 {
	if e == kernels.EncodedBF16 {
		return math.Float32frombits(uint32(bits) << 16)
	}
	// A half has a 5-bit exponent with bias 15 instead of 127; the product rebases it, subnormals too. All ones are infinity or NaN.
	sign, rest := uint32(bits>>15)<<31, uint32(bits&0x7fff)<<13
	size := math.Float32bits(math.Float32frombits(rest) * 0x1p112)
	if bits&0x7c00 == 0x7c00 {
		size = rest | 0x7f800000
	}
	return math.Float32frombits(sign | size)
}

// Pack writes rows from a buffer.
func (b *Backend) Pack(w kernels.Matrix, row int, src kernels.Buffer) {
	m, from := ownMatrix(w), own(src)
	if m.t != kernels.F32 {
		n := src.Len()
		b.launch("narrow", gridOfFours(n), address(m.row(row)), at(src), i64(n))
		return
	}
	b.note(b.stream.Copy(m.row(row), from.at, from.bytes()))
}

// Compress leaves the elements as they are, because reading 16 bits each is fast enough on a card.
func (b *Backend) Compress(w kernels.Matrix) error {
	ownMatrix(w).compressed = true
	return nil
}

// Unpack converts a matrix to f32.
func (b *Backend) Unpack(dst kernels.Buffer, w kernels.Matrix) {
	m := ownMatrix(w)
	if m.codes.values != 0 {
		b.gatherCodes(at(dst), m, address(0), m.rows)
		return
	}
	if m.t == kernels.F32 {
		b.note(b.stream.Copy(own(dst).at, m.memory.At, m.memory.Bytes))
		return
	}
	n := m.rows * m.cols
	b.launch("widen", gridOfFours(n), at(dst), address(m.memory.At), i64(n))
}
