package kerneltest

import (
	"math"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// result are the outputs of a call.
type result []output

// output is one operand that an operation wrote: rows of width numbers, without the numbers beside a
// window.
type output struct {
	width int
	data  []float32
}

// join appends the rows of results of the same case.
func join(parts []result) (whole result) {
	for _, part := range parts {
		for i, o := range part {
			if i == len(whole) {
				whole = append(whole, output{width: o.width})
			}
			whole[i].data = append(whole[i].data, o.data...)
		}
	}
	return whole
}

// split is the inverse of join: the rows of each unit.
func split(whole result, units [][]int) []result {
	parts := make([]result, len(units))
	for _, o := range whole {
		at := 0
		for u, unit := range units {
			n := len(unit) * o.width
			parts[u] = append(parts[u], output{o.width, o.data[at : at+n]})
			at += n
		}
	}
	return parts
}

// Tolerance is the tolerance of near by the type of the matrix, or of keys and values. It depends on the order in which a
// backend sums.
type Tolerance struct {
	F32          float64 // also for operations without a type
	BF16         float64
	BF16Rounding float64
	Attention    float64 // over keys and values in bf16
	HeadGradW    float64 // to a matrix of BF16Rounding
}

// Chains is the tolerance of a backend that sums in chains of float32: the error of a few hundred random terms.
var Chains = Tolerance{F32: 5e-6, BF16: 5e-6, BF16Rounding: 5e-6, Attention: 5e-6, HeadGradW: 5e-6}

// OnCard is Chains for a card, whose attention over keys and values in bf16 rounds queries and weights, too.
var OnCard = Tolerance{F32: 5e-6, BF16: 5e-6, BF16Rounding: 5e-6, Attention: 1.5e-2, HeadGradW: 5e-6}

// of is the tolerance of products with a matrix of that type.
func (o Tolerance) of(t kernels.DType) float64 {
	switch t {
	case kernels.BF16:
		return o.BF16
	case kernels.BF16Rounding:
		return o.BF16Rounding
	}
	return o.F32
}

// near requires that every number of got is within tolerance of want, relative to the root mean square of
// its output, or to 1, the size of its operands: that is the magnitude of a sum of random terms, which a
// wrong or missing term changes by much more than rounding does.
func near(t *testing.T, what string, tolerance float64, want, got result) {
	t.Helper()
	for i := range want {
		nearSlice(t, what, i, tolerance, want[i], got[i])
	}
}

func nearSlice(t *testing.T, what string, operand int, tolerance float64, want, got output) {
	t.Helper()
	if len(want.data) != len(got.data) {
		t.Fatalf("%s: output %d has %d numbers, expected %d", what, operand, len(got.data), len(want.data))
	}
	var squares float64
	for _, w := range want.data {
		squares += float64(w) * float64(w)
	}
	allowed := tolerance * math.Sqrt(max(1, squares/float64(max(1, len(want.data)))))
	worst, at := 0.0, -1
	for i, w := range want.data {
		off := math.Abs(float64(got.data[i]) - float64(w))
		if !(off <= allowed) && !(off <= worst) {
			worst, at = off, i
		}
	}
	if at >= 0 {
		t.Errorf("%s: output %d row %d column %d is %v, expected %v within %.2g",
			what, operand, at/want.width, at%want.width, got.data[at], want.data[at], allowed)
	}
}

// equal requires the same bits.
func equal(t *testing.T, what string, want, got result) {
	t.Helper()
	for i := range want {
		if len(want[i].data) != len(got[i].data) {
			t.Fatalf("%s: output %d has %d numbers, expected %d", what, i, len(got[i].data), len(want[i].data))
		}
		for j, w := range want[i].data {
			if g := got[i].data[j]; math.Float32bits(g) != math.Float32bits(w) {
				t.Errorf("%s: output %d row %d column %d is %v (%08x), expected the bits of %v (%08x)", what, i,
					j/want[i].width, j%want[i].width, g, math.Float32bits(g), w, math.Float32bits(w))
				return
			}
		}
	}
}
