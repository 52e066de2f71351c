package nf4

import (
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// ReadQuantising is the Reader that quantises a model while it is loaded: its matrices are to the bit those that
// QuantiseModel writes with double quantisation. A weight that is quantised already stays as it is.
func ReadQuantising(set *tensorfile.Set, name string, rows, cols int) (m *Matrix, quantised bool, err error) {
	if m, quantised, err = Read(set, name, rows, cols); quantised || err != nil || !inLayer(name) {
		return m, quantised, err
	}
	t, err := numbers(set, name, rows, cols)
	if err != nil {
		return nil, true, err
	}
	return OfTensor(t), true, nil
}

// DescribeQuantising is to ReadQuantising what Describe is to Read.
func DescribeQuantising(set *tensorfile.Set, name string, rows, cols int) (m *Matrix, quantised bool, err error) {
	if m, quantised, err = Describe(set, name, rows, cols); quantised || err != nil || !inLayer(name) {
		return m, quantised, err
	}
	t, err := set.Tensor(name, rows, cols)
	if err == nil {
		err = onlyOfBF16(t)
	}
	return OfShape(rows, cols), true, err
}

// OfShape is what OfTensor returns, without codes and scales.
func OfShape(rows, cols int) *Matrix {
	return &Matrix{kernels.Quantised{Rows: rows, Cols: cols, Block: blockSize, Values: values}, kernels.EncodedBF16}
}

// OfTensor quantises a bf16 matrix with double quantisation. It is read some rows at a time.
func OfTensor(t tensorfile.Tensor) *Matrix {
	q := newWeight(t.Shape[0], t.Shape[1], scalesOf(t), true)
	q.Codes = make([]byte, 0, (t.Len()+1)/2)
	_ = eachRun(t, encode, func(codes []byte) error { q.Codes = append(q.Codes, codes...); return nil })
	return &q.Matrix
}

// scalesOf are the scales of a matrix's blocks, before they are quantised.
func scalesOf(t tensorfile.Tensor) (scales []float32) {
	_ = eachRun(t, largests, func(some []float32) error { scales = append(scales, some...); return nil })
	return scales
}

// numbers returns a matrix that can be quantised.
func numbers(set *tensorfile.Set, name string, shape ...int) (t tensorfile.Tensor, err error) {
	if t, err = set.Tensor(name, shape...); err == nil {
		err = onlyOfBF16(t)
	}
	if err == nil {
		err = tensorfile.CheckFinite(t)
	}
	return t, err
}

func onlyOfBF16(t tensorfile.Tensor) error {
	if t.Encoding != kernels.EncodedBF16 {
		return badinput.Errorf("%s: tensor %q is not bf16; only a model in bf16 is quantised: "+
			"type grpo export-model --model %s --type bf16 --out DIR first", t.File, t.Name, display.ShellQuote(filepath.Dir(t.File)))
	}
	return nil
}
