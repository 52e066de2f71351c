package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Quantised are rows of a 4-bit matrix as stored in a file: a code for each weight, the index of one of 16 values, and a
// scale for each block of weights. A weight is its value times its scale in F32.
type Quantised struct {
	Rows, Cols int
	Codes      []byte // of the row-major rows, two to a byte, the earlier in the high half
	Values     [16]float32
	Scales     []float32 // scale i/Block is that of weight i: blocks run across the ends of rows, and the last may be short
	Block      int
}

// Decode writes len(dst) weights from index from on into dst.
func (q *Quantised) Decode(dst []float32, from int) {
	for i := range dst {
		at := from + i
		code := q.Codes[at/2] >> 4
		if at%2 == 1 {
			code = q.Codes[at/2] & 15
		}
		dst[i] = q.Values[code] * q.Scales[at/q.Block]
	}
}

// Quantiser is a backend that can store matrices in four bits a weight.
type Quantiser interface {
	// NewQuantised does what the function of that name does, or returns nil if it cannot store these in four bits.
	NewQuantised(t DType, parts []Quantised) (Matrix, error)
	// QuantisedSize is the memory of such a matrix; 0 if it cannot store these in four bits.
	QuantisedSize(parts []Quantised) int
}

// WholeMultiplier is a backend that multiplies matrices of I16Rounding in integers.
type WholeMultiplier interface {
	MultipliesWhole() bool
}

// MultipliesWhole reports whether a backend multiplies in integers; false if it is no WholeMultiplier.
func MultipliesWhole(b Backend) bool {
	w, ok := unwrap(b).(WholeMultiplier)
	return ok && w.MultipliesWhole()
}

// NewQuantised makes a matrix of type BF16, BF16Rounding or I16Rounding from the rows of the parts, each weight rounded to bf16. It is
// read-only, as after Compress. Results are those of a bf16 matrix of the same weights, to the bit, with two exceptions: integer
// products (I16Rounding, which needs a WholeMultiplier), and in the order of tiles weights whose scale, or product before rounding, is
// subnormal, which may count as zero. If the backend can, it stores four bits a weight and the scales; else 16 bits, and the type
// is BF16 in place of I16Rounding.
func NewQuantised(b Backend, t DType, parts ...Quantised) (Matrix, error) {
	if l, ok := b.(*Ledger); ok {
		return l.newQuantised(t, parts)
	}
	checkQuantised(b, t, parts)
	if q, ok := unwrap(b).(Quantiser); ok {
		if m, err := q.NewQuantised(t, parts); m != nil || err != nil {
			return m, err
		}
	}
	m, err := b.NewMatrix(t.unquantised(), rowsOf(parts), parts[0].Cols)
	if err != nil {
		return nil, err
	}
	row := 0
	for _, p := range parts {
		loadDecoded(b, m, row, &p)
		row += p.Rows
	}
	return m, b.Compress(m)
}

// unquantised is the type of the 16-bit matrix that replaces a 4-bit one.
func (d DType) unquantised() DType {
	if d == I16Rounding {
		return BF16
	}
	return d
}

func rowsOf(parts []Quantised) (n int) {
	for _, p := range parts {
		n += p.Rows
	}
	return n
}

// checkQuantised panics if the parts do not fit together: a bug of the caller, like a wrong shape.
func checkQuantised(b Backend, t DType, parts []Quantised) {
	begin(b, "NewQuantised")
	if t != BF16 && t != BF16Rounding && t != I16Rounding {
		panic(fmt.Sprintf("kernels: NewQuantised: the type is %v, expected bf16", t))
	}
	if t == I16Rounding && !MultipliesWhole(b) {
		panic(fmt.Sprintf("kernels: NewQuantised: %s has no products in whole numbers", b.Name()))
	}
	if len(parts) == 0 {
		panic("kernels: NewQuantised: there are no parts")
	}
	for i, p := range parts {
		n := p.Rows * p.Cols
		if p.Block < 1 || p.Cols != parts[0].Cols || p.Rows < 1 || p.Cols < 1 ||
			len(p.Codes) != (n+1)/2 || len(p.Scales) != (n+p.Block-1)/p.Block {
			panic(fmt.Sprintf("kernels: NewQuantised: part %d is %d × %d with %d bytes of codes and %d scales of blocks of %d",
				i, p.Rows, p.Cols, len(p.Codes), len(p.Scales), p.Block))
		}
	}
}

// loadDecoded writes decoded rows into a matrix of bf16, some at a time to bound memory.
func loadDecoded(b Backend, m Matrix, row int, q *Quantised) {
	const numbers = 1 << 16
	some := max(numbers/q.Cols, 1)
	wide, narrow := make([]float32, some*q.Cols), make([]byte, 2*some*q.Cols)
	for r := 0; r < q.Rows; r += some {
		n := min(some, q.Rows-r) * q.Cols
		q.Decode(wide[:n], r*q.Cols)
		for i, x := range wide[:n] {
			binary.LittleEndian.PutUint16(narrow[2*i:], BF16Bits(x))
		}
		b.Load(m, row+r, HostRows{Encoding: EncodedBF16, Bytes: narrow[:2*n]})
	}
}

// BF16Bits rounds to bf16, ties to even, and returns the bits.
func BF16Bits(x float32) uint16 {
	u := math.Float32bits(x)
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}
