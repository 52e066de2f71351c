package nf4

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// What everybody quantises with: 64 weights to a scale, 256 scales to a scale of theirs.
const (
	blockSize       = 64
	nestedBlockSize = 256
)

// Weight is a matrix with the parts that a file holds of it.
type Weight struct {
	Matrix
	double *doubled // nil where the scales are kept in f32
}

// doubled are scales that are quantised themselves.
type doubled struct {
	codes  []byte
	scales []float32
	offset float32
}

// Quantise gives the matrix that is nearest to weights [rows, cols] of bf16, block by block: a block's scale is its largest
// absolute value. With double quantisation the scales take eight bits in place of 32.
func Quantise(weights []float32, rows, cols int, double bool) *Weight {
	codes := make([]byte, (len(weights)+1)/2)
	of := kernels.Quantised{Rows: rows, Cols: cols, Block: blockSize, Values: values, Codes: codes}
	q := &Weight{Matrix: Matrix{of, kernels.EncodedBF16}}
	at := 0
	for block := range slices.Chunk(weights, blockSize) {
		largest := largestOf(block)
		q.Scales = append(q.Scales, largest)
		for _, w := range block {
			if at%2 == 0 {
				q.Codes[at/2] = nearest(w, largest) << 4
			} else {
				q.Codes[at/2] |= nearest(w, largest)
			}
			at++
		}
	}
	if double {
		q.double = quantiseScales(q.Scales)
		q.Scales = q.double.decode()
	}
	return q
}

func largestOf(block []float32) float32 {
	largest := float32(0)
	for _, w := range block {
		largest = max(largest, float32(math.Abs(float64(w))))
	}
	return largest
}

// nearest is the code of the value that a weight comes closest to; between two values, the lower one.
func nearest(w, scale float32) byte {
	if scale == 0 {
		return zero
	}
	return byte(nearestOf(values[:], w*(1/scale)))
}

// zero is the code of the value 0.
const zero = 7

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

// quantiseScales codes the scales' distances from their mean.
func quantiseScales(scales []float32) *doubled {
	sum := 0.0
	for _, s := range scales {
		sum += float64(s)
	}
	d := &doubled{offset: float32(sum / float64(len(scales)))}
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

func (d *doubled) decode() []float32 {
	scales := make([]float32, len(d.codes))
	for i, c := range d.codes {
		scaled := float32(dynamic[c] * d.scales[i/nestedBlockSize])
		scales[i] = scaled + d.offset
	}
	return scales
}

// dynamic are the values of eight-bit codes whose precision is relative: zero, one, and with both signs the middles of
// equal steps from 0.1 to 1 of seven powers of ten, 64 steps for the largest and half as many for each smaller one. A
// file brings its own along; other writers' differ from these in the last bit.
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

// Sources are the parts of the weight as tensors of a file.
func (q *Weight) Sources(name string) []tensorfile.Source {
	s := state{Kind: "nf4", Block: q.Block, Type: "bfloat16", Shape: []int{q.Rows, q.Cols}}
	parts := []tensorfile.Source{
		tensorfile.FromBytes(name, q.Codes, len(q.Codes), 1),
		tensorfile.FromFloat32s(name+".quant_map", q.Values[:], len(q.Values)),
	}
	if d := q.double; d != nil {
		offset := float64(d.offset)
		s.NestedBlock, s.NestedType, s.NestedOffset = nestedBlockSize, "float32", &offset
		parts = append(parts,
			tensorfile.FromBytes(name+".absmax", d.codes, len(d.codes)),
			tensorfile.FromFloat32s(name+".nested_absmax", d.scales, len(d.scales)),
			tensorfile.FromFloat32s(name+".nested_quant_map", dynamic, len(dynamic)))
	} else {
		parts = append(parts, tensorfile.FromFloat32s(name+".absmax", q.Scales, len(q.Scales)))
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain values
	}
	return append(parts, tensorfile.FromBytes(name+stateName, text, len(text)))
}
