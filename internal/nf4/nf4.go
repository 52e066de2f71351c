// Package nf4 reads and writes matrices quantised to four bits, as bitsandbytes serialises NF4: a code for each weight,
// which selects one of 16 values, and a scale for each block of weights. Blocks run over the matrix row by row, across the
// ends of rows. With double quantisation the scales are quantised too, to eight bits with scales of their own.
//
// A weight is its value times its scale, in f32, rounded to the type that the model was quantised from. That is the number
// that training and sampling see, and Decode returns it to the bit.
package nf4

import (
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Matrix is a matrix in NF4.
type Matrix struct {
	kernels.Quantised
	Type kernels.Encoding // the type that weights are rounded to
}

// values are the quantisation levels of NF4: quantiles of the normal distribution, with zero among them, scaled to [-1, 1].
var values = [16]float32{
	-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
	-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
	0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
}

// Decode decodes weights to dst, from the index `from` in row-major order on.
func (m *Matrix) Decode(dst []float32, from int) {
	m.Quantised.Decode(dst, from)
	if m.Type != kernels.EncodedF32 {
		m.round(dst)
	}
}

// round rounds weights to the matrix's type.
func (m *Matrix) round(w []float32) {
	var wide [256]float64
	var narrow [2 * len(wide)]byte
	for part := range slices.Chunk(w, len(wide)) {
		for i, x := range part {
			wide[i] = float64(x)
		}
		tensorfile.Narrow(narrow[:], m.Type, wide[:len(part)])
		tensorfile.Widen(part, m.Type, narrow[:])
	}
}

// Encode returns all weights in the encoding of their type.
func (m *Matrix) Encode() []byte {
	const some = 1 << 12
	n := m.Rows * m.Cols
	out := make([]byte, n*m.Type.Size())
	var decoded [some]float32
	var wide [some]float64
	for at := 0; at < n; at += some {
		part := decoded[:min(some, n-at)]
		m.Quantised.Decode(part, at)
		for i, x := range part {
			wide[i] = float64(x)
		}
		tensorfile.Narrow(out[at*m.Type.Size():], m.Type, wide[:len(part)])
	}
	return out
}

// Reader returns the matrix of that name, which must have that shape. quantised is false if the weight is stored
// unquantised.
type Reader func(set *tensorfile.Set, name string, rows, cols int) (m *Matrix, quantised bool, err error)

// Read is the Reader of whole matrices.
func Read(set *tensorfile.Set, name string, rows, cols int) (m *Matrix, quantised bool, err error) {
	s, quantised, err := readState(set, name)
	if !quantised || err != nil {
		return nil, quantised, err
	}
	if m, err = s.describe(set, name, rows, cols); err != nil {
		return nil, true, err
	}
	if m.Codes, _, err = set.Bytes(name); err != nil {
		return nil, true, err
	}
	count := rows * cols
	if want := (count + 1) / 2; len(m.Codes) != want {
		return nil, true, badinput.Errorf("%s: %q has %d bytes of codes, expected %d for shape [%d %d]",
			set.Path(name), name, len(m.Codes), want, rows, cols)
	}
	if m.Scales, err = s.scales(set, name, (count+m.Block-1)/m.Block); err == nil {
		err = m.checkFinite(set, name)
	}
	return m, true, err
}

// checkFinite refuses a matrix with a weight that is not finite in its type. This can be decided from levels and scales alone.
func (m *Matrix) checkFinite(set *tensorfile.Set, name string) error {
	most, worst := largestOf(m.Values[:]), 0
	for i, s := range m.Scales {
		if x := s * most; x-x != 0 {
			worst = i
			break
		}
		if max(s, -s) > max(m.Scales[worst], -m.Scales[worst]) {
			worst = i
		}
	}
	largest := []float32{m.Scales[worst] * most}
	if m.round(largest); largest[0]-largest[0] != 0 {
		return badinput.Errorf("%s: %q: block %d has a scale of %v for values of up to %v, expected finite weights", set.Path(name), name, worst,
			m.Scales[worst], most)
	}
	return nil
}

// Describe is the Reader for memory planning: its matrices have neither codes nor scales.
func Describe(set *tensorfile.Set, name string, rows, cols int) (m *Matrix, quantised bool, err error) {
	s, quantised, err := readState(set, name)
	if !quantised || err != nil {
		return nil, quantised, err
	}
	m, err = s.describe(set, name, rows, cols)
	return m, true, err
}

// OnlyBF16 reports whether everything quantised was bf16 before.
func OnlyBF16(set *tensorfile.Set) bool {
	for _, name := range set.Names() {
		if weight, ok := strings.CutSuffix(name, stateName); ok {
			if s, _, err := readState(set, weight); err != nil || s.encoding() != kernels.EncodedBF16 {
				return false
			}
		}
	}
	return true
}

// floats returns a tensor of that many finite numbers.
func floats(set *tensorfile.Set, name string, count int) ([]float32, error) {
	t, err := set.Tensor(name, count)
	if err != nil {
		return nil, err
	}
	if t.Encoding != kernels.EncodedF32 {
		return nil, badinput.Errorf("%s: tensor %q is not F32, as the parts of a quantised weight are", t.File, name)
	}
	return tensorfile.Float32s(t), tensorfile.CheckFinite(t)
}
