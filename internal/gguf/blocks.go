package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// encodings are the types without blocks, whose numbers are encoded one by one.
var encodings = map[Type]kernels.Encoding{F32: kernels.EncodedF32, F16: kernels.EncodedF16, BF16: kernels.EncodedBF16}

// largestHalf is the largest finite number of f16.
const largestHalf = 65504

// encode encodes numbers, a multiple of the block size. wide is scratch memory of the same length.
func (t Type) encode(dst []byte, src []float32, wide []float64) error {
	switch t {
	case Q4:
		encodeBlocks(dst, src, -8, 16, packNibbles)
		return nil
	case Q8:
		encodeBlocks(dst, src, 127, 32, packBytes)
		return nil
	}
	for i, x := range src {
		if t == F16 && math.Abs(float64(x)) > largestHalf {
			return fmt.Errorf("%g is too large for f16; type --type bf16", x)
		}
		wide[i] = float64(x)
	}
	tensorfile.Narrow(dst, encodings[t], wide[:len(src)])
	return nil
}

// encodeBlocks encodes blocks of 32 numbers: a scale, by which the number of the largest magnitude gets the code top, and the codes.
func encodeBlocks(dst []byte, src []float32, top float32, codes int, pack func(dst []byte, src []float32, inverse float32)) {
	for len(src) > 0 {
		var most float32 // with its sign
		for _, x := range src[:32] {
			if abs(x) > abs(most) {
				most = x
			}
		}
		if top > 0 {
			most = abs(most)
		}
		scale, inverse := most/top, float32(0)
		if scale != 0 {
			inverse = 1 / scale
		}
		tensorfile.Narrow(dst, kernels.EncodedF16, []float64{float64(scale)})
		pack(dst[2:2+codes], src[:32], inverse)
		dst, src = dst[2+codes:], src[32:]
	}
}

func abs(x float32) float32 { return float32(math.Abs(float64(x))) }

// packBytes rounds to the nearest code, ties away from zero.
func packBytes(dst []byte, src []float32, inverse float32) {
	for i, x := range src {
		dst[i] = byte(int8(math.Round(float64(x * inverse))))
	}
}

// packNibbles packs the codes of the first half into the low four bits, and those of the second into the high ones. Code 8 is
// zero. The number of the largest magnitude has the code 0, or 15 if it cannot have 0.
func packNibbles(dst []byte, src []float32, inverse float32) {
	code := func(x float32) byte {
		scaled := float32(x * inverse) // rounded explicitly, so that no machine fuses product and sum
		return byte(min(15, int8(scaled+8.5)))
	}
	for i := range dst {
		dst[i] = code(src[i]) | code(src[i+16])<<4
	}
}

// decode decodes len(dst) numbers.
func (t Type) decode(dst []float32, src []byte) {
	if e, plain := encodings[t]; plain {
		tensorfile.Widen(dst, e, src)
		return
	}
	var scale [1]float32
	for ; len(dst) > 0; dst, src = dst[32:], src[kinds[t].bytes:] {
		tensorfile.Widen(scale[:], kernels.EncodedF16, src)
		codes := src[2:kinds[t].bytes]
		for i := range dst[:32] {
			switch {
			case t == Q8:
				dst[i] = float32(int8(codes[i])) * scale[0]
			case i < 16:
				dst[i] = float32(int(codes[i]&15)-8) * scale[0]
			default:
				dst[i] = float32(int(codes[i-16]>>4)-8) * scale[0]
			}
		}
	}
}

// maxError is the largest error that encoding x may have, if the largest magnitude in its block is most.
func (t Type) maxError(x, most float64) float64 {
	const half = 1.0 / 2048 // relative error of rounding a number, or a scale, to f16
	const step = 0x1p-25    // half of the smallest step of f16
	const least = 0x1p-134  // and of bf16
	switch t {
	case Q8:
		return most*(0.5/127+1.01*half) + 127*step
	case Q4: // one of the signs has one code less than the other
		return most*(1.0/8+1.01*half) + 8*step
	case F16:
		return math.Abs(x)*half + step
	case BF16:
		return math.Abs(x)/256 + least
	}
	return 0
}

// check compares encoded blocks with the original numbers. room is scratch memory of the same length.
func (t Type) check(meant []float32, written []byte, room []float32) error {
	room = room[:len(meant)]
	t.decode(room, written)
	block, most := kinds[t].block, 0.0
	for i, x := range meant {
		if i%block == 0 {
			most = 0
			for _, y := range meant[i : i+block] {
				most = math.Max(most, math.Abs(float64(y)))
			}
		}
		if d := math.Abs(float64(x) - float64(room[i])); !(d <= t.maxError(float64(x), most)) {
			return fmt.Errorf("element %d is %g, and would be written as %g", i, x, room[i])
		}
	}
	return nil
}

// appendText adds a string with its length.
func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
