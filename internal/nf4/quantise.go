package nf4

import (
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// The usual block sizes: 64 weights per scale, and with double quantisation 256 scales per outer scale.
const (
	blockSize       = 64
	nestedBlockSize = 256
)

// Weight is a matrix with the parts of its serialised form.
type Weight struct {
	Matrix
	double *quantisedScales // nil: the scales are f32
}

// quantisedScales are quantised scales.
type quantisedScales struct {
	codes  []byte
	scales []float32
	offset float32
}

// Quantise quantises bf16 weights [rows, cols]. The scale of a block is its largest absolute value. With double
// quantisation the scales take eight bits instead of 32.
func Quantise(weights []float32, rows, cols int, double bool) *Weight {
	q := newWeight(rows, cols, largests(weights), double)
	q.Codes = encode(weights)
	return q
}

// newWeight makes a weight without codes.
func newWeight(rows, cols int, largests []float32, double bool) *Weight {
	of := kernels.Quantised{Rows: rows, Cols: cols, Block: blockSize, Values: values, Scales: largests}
	q := &Weight{Matrix: Matrix{of, kernels.EncodedBF16}}
	if double {
		q.double = quantiseScales(largests)
		q.Scales = q.double.decode()
	}
	return q
}

// largests are the largest absolute values of the blocks.
func largests(weights []float32) []float32 {
	all := make([]float32, 0, (len(weights)+blockSize-1)/blockSize)
	for block := range slices.Chunk(weights, blockSize) {
		all = append(all, largestOf(block))
	}
	return all
}

func largestOf(block []float32) float32 {
	largest := float32(0)
	for _, w := range block {
		largest = max(largest, max(w, -w))
	}
	return largest
}

// encode returns the codes of the levels nearest to the weights, divided by the largest of their block.
func encode(weights []float32) []byte {
	codes := make([]byte, (len(weights)+1)/2)
	at := 0
	for block := range slices.Chunk(weights, blockSize) {
		largest := largestOf(block)
		for _, w := range block {
			code := byte(zero)
			if largest != 0 {
				code = nearest(w * (1 / largest))
			}
			codes[at/2] |= code << (4 * (1 - at%2))
			at++
		}
	}
	return codes
}

// zero is the code of the value 0.
const zero = 7

// midpoints are the midpoints between levels.
var midpoints = func() (m [len(values) - 1]float64) {
	for i := range m {
		m[i] = (float64(values[i]) + float64(values[i+1])) / 2
	}
	return m
}()

// nearest is the code of the level nearest to x; of two equally near, the lower.
func nearest(x float32) byte {
	code := byte(0)
	for _, m := range midpoints {
		if float64(x) > m {
			code++
		}
	}
	return code
}

// quantiseScales quantises the scales' distances from their mean.
func quantiseScales(scales []float32) *quantisedScales {
	sum := 0.0
	for _, s := range scales {
		sum += float64(s)
	}
	d := &quantisedScales{offset: float32(sum / float64(len(scales)))}
	for block := range slices.Chunk(scales, nestedBlockSize) {
		centred := make([]float32, len(block))
		for i, s := range block {
			centred[i] = s - d.offset
		}
		largest := largestOf(centred)
		d.scales = append(d.scales, largest)
		for _, c := range centred {
			x := float32(0)
			if largest != 0 {
				x = c * (1 / largest)
			}
			d.codes = append(d.codes, byte(nearestOf(dynamic, x)))
		}
	}
	return d
}

// nearestOf is the index of the nearest of ascending values.
func nearestOf(values []float32, x float32) int {
	above, _ := slices.BinarySearch(values, x)
	switch {
	case above == 0:
		return 0
	case above == len(values):
		return above - 1
	case float64(x) <= (float64(values[above-1])+float64(values[above]))/2:
		return above - 1
	}
	return above
}

func (d *quantisedScales) decode() []float32 {
	scales := make([]float32, len(d.codes))
	for i, c := range d.codes {
		scaled := float32(dynamic[c] * d.scales[i/nestedBlockSize])
		scales[i] = scaled + d.offset
	}
	return scales
}

// dynamic are the levels of bitsandbytes' dynamic eight-bit quantisation: zero, one, and with both signs the midpoints of
// equal steps from 0.1 to 1 for seven powers of ten, 64 steps for the largest and half as many for each smaller one. A
// file contains its own table; those of other writers differ in the last bit.
var dynamic = dynamicValues()

func dynamicValues() []float32 {
	out := []float32{0, 1}
	for decade := range 7 {
		steps := 1 << decade
		power := math.Pow(10, float64(decade-6))
		for i := range steps {
			x := float32(power * (0.1 + 0.9*(float64(i)+0.5)/float64(steps)))
			out = append(out, x, -x)
		}
	}
	slices.Sort(out)
	return out
}
