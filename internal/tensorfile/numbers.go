package tensorfile

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// laneMask are masks for eight bytes at once: the exponent bits of every number in them, the lowest of these bits, and the
// signs.
type laneMask struct{ exponent, lowest, sign uint64 }

var laneMasks = [...]laneMask{
	kernels.EncodedBF16: {0x7F80_7F80_7F80_7F80, 0x0080_0080_0080_0080, 0x8000_8000_8000_8000},
	kernels.EncodedF16:  {0x7C00_7C00_7C00_7C00, 0x0400_0400_0400_0400, 0x8000_8000_8000_8000},
	kernels.EncodedF32:  {0x7F80_0000_7F80_0000, 0x0080_0000_0080_0000, 0x8000_0000_8000_0000},
}

// CheckFinite returns an input error that names the first element that is infinite or NaN.
func CheckFinite(t Tensor) error { return CheckPiece(0, t) }

// CheckPiece is CheckFinite for a piece of a tensor that begins at element from.
func CheckPiece(from int, t Tensor) error {
	const block = 64 << 10
	size := t.Encoding.Size()
	for at := 0; at < len(t.Bytes); at += block {
		part := t.Bytes[at:min(at+block, len(t.Bytes))]
		if allFinite(part, t.Encoding) {
			continue
		}
		for i := 0; i < len(part); i += size {
			x := decode(t.Encoding, part[i:])
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return badinput.Errorf("%s: tensor %q: element %d is %v, expected finite numbers", t.File, t.Name, from+(at+i)/size, x)
			}
		}
	}
	return nil
}

// allFinite checks eight bytes at a time. A number is infinite or NaN if all its exponent bits are set; then, and only
// then, adding the lowest of them carries into the sign bit, which the mask has cleared.
func allFinite(b []byte, enc kernels.Encoding) bool {
	m := laneMasks[enc]
	carry := uint64(0)
	for ; len(b) >= 32; b = b[32:] {
		w := b[:32:32]
		carry |= (binary.LittleEndian.Uint64(w)&m.exponent + m.lowest) |
			(binary.LittleEndian.Uint64(w[8:])&m.exponent + m.lowest) |
			(binary.LittleEndian.Uint64(w[16:])&m.exponent + m.lowest) |
			(binary.LittleEndian.Uint64(w[24:])&m.exponent + m.lowest)
	}
	for i := 0; i < len(b); i += enc.Size() {
		word := uint64(binary.LittleEndian.Uint16(b[i:]))
		if enc == kernels.EncodedF32 {
			word = uint64(binary.LittleEndian.Uint32(b[i:]))
		}
		carry |= word&m.exponent + m.lowest
	}
	return carry&m.sign == 0
}

// Float32s are the numbers of t; the conversion is exact.
func Float32s(t Tensor) []float32 {
	out := make([]float32, t.Len())
	Widen(out, t.Encoding, t.Bytes)
	return out
}

// Widen decodes len(dst) numbers from the start of src.
func Widen(dst []float32, enc kernels.Encoding, src []byte) {
	src = src[:len(dst)*enc.Size()]
	switch enc {
	case kernels.EncodedF32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case kernels.EncodedBF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case kernels.EncodedF16:
		for i := range dst {
			dst[i] = fromF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	}
}

// RowsInBF16 yields the rows of r in bf16, rounded to nearest-even if necessary, with the index of the first row. Rows that must be
// converted come some at a time.
func RowsInBF16(r kernels.HostRows, cols int) iter.Seq2[int, kernels.HostRows] {
	return func(yield func(int, kernels.HostRows) bool) {
		if r.Encoding == kernels.EncodedBF16 {
			yield(0, r)
			return
		}
		size, row := cols*r.Encoding.Size(), 0
		for some := range slices.Chunk(r.Bytes, size*max(1<<20/cols, 1)) {
			values := make([]float32, len(some)/r.Encoding.Size())
			Widen(values, r.Encoding, some)
			nearest := make([]byte, 0, 2*len(values))
			for _, v := range values {
				nearest = binary.LittleEndian.AppendUint16(nearest, kernels.BF16Bits(v))
			}
			if !yield(row, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: nearest}) {
				return
			}
			row += len(some) / size
		}
	}
}

// Narrow encodes src into the start of dst. Numbers are rounded to nearest-even; those that are too large become
// infinite.
func Narrow(dst []byte, enc kernels.Encoding, src []float64) {
	dst = dst[:len(src)*enc.Size()]
	switch enc {
	case kernels.EncodedF32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(float32(x)))
		}
	case kernels.EncodedBF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], round16(x, 7, -126))
		}
	case kernels.EncodedF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], round16(x, 10, -14))
		}
	}
}

func decode(enc kernels.Encoding, b []byte) float32 {
	var x [1]float32
	Widen(x[:], enc, b)
	return x[0]
}

func fromF16(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&0x3FF
	switch exponent {
	case 0: // zero and subnormals, which are normal in 32 bits
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31:
		return math.Float32frombits(sign | 0x7F80_0000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// round16 rounds x to a 16-bit number with that many fraction bits, whose smallest normal number is 2^smallest.
func round16(x float64, fraction, smallest int) uint16 {
	b := math.Float64bits(x)
	sign := uint16(b >> 48 & 0x8000)
	infinity := uint64(1-2*smallest+2) << fraction
	exponent := int(b>>52&0x7FF) - 1023
	if exponent == 1024 {
		if x != x {
			return uint16(infinity) | 1<<(fraction-1)
		}
		return sign | uint16(infinity)
	}
	// All 53 bits of x. drop is how many low bits are dropped; more for subnormal results.
	m, drop := b&(1<<52-1)|1<<52, 52-fraction
	if exponent < smallest {
		drop += smallest - exponent
		exponent = smallest
	}
	if drop > 54 {
		return sign
	}
	// Adds just under half of the dropped range, or half if the kept part is odd: ties go to even.
	kept := (m + 1<<(drop-1) - 1 + m>>drop&1) >> drop
	// The leading bit of a normal number, and a carry out of rounding, add one to the exponent field.
	return sign | uint16(min(uint64(exponent-smallest)<<fraction+kept, infinity))
}
