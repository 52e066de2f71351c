package oracle

import (
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

var _ kernels.Narrower = reference{}

// Narrow takes the upper halves of the results of RoundedToBF16, except for NaN, which rounding may turn into something else.
func (reference) Narrow(out, x kernels.Buffer, n int) {
	to, from := own[uint16](out), own[float32](x)[:n]
	for i, r := range RoundedToBF16(from) {
		if from[i] != from[i] {
			r = float32(math.NaN())
		}
		to[i] = uint16(math.Float32bits(r) >> 16)
	}
}

func (reference) Widen(out, x kernels.Buffer, n int) {
	copy(own[float32](out), widened(own[uint16](x)[:n]))
}

// widened are the same numbers in 32 bits.
func widened(x []uint16) []float32 {
	y := make([]float32, len(x))
	for i, bits := range x {
		y[i] = math.Float32frombits(uint32(bits) << 16)
	}
	return y
}
