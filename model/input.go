package model

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
)

// input is a leaf with one number per row, and its host copy. The copy has the size of the leaf and is
// boxed once, so that loading a batch allocates nothing; rows beyond the batch are never read.
type input struct {
	operand
	ints   []int32
	floats []float32
	boxed  any
}

// grow makes room for rows numbers.
func (in *input) grow(b kernels.Backend, t kernels.DType, rows int) error {
	buf, err := b.Alloc(t, rows)
	if err != nil {
		return fmt.Errorf("inputs of %d rows: %w", rows, err)
	}
	in.operand = operand{buf: buf, width: 1}
	if t == kernels.I32 {
		in.ints = make([]int32, rows)
		in.boxed = in.ints
	} else {
		in.floats = make([]float32, rows)
		in.boxed = in.floats
	}
	return nil
}

func (in *input) loadInts(b kernels.Backend, src []int32) {
	copy(in.ints, src)
	b.Upload(in.buf, in.boxed)
}

func (in *input) loadFloats(b kernels.Backend, src []float32) {
	copy(in.floats, src)
	b.Upload(in.buf, in.boxed)
}

// fetch brings the start of a buffer of floats to the host copy and returns n of them.
func (in *input) fetch(b kernels.Backend, src kernels.Buffer, n int) ([]float32, error) {
	err := b.Download(in.boxed, src)
	return in.floats[:n], err
}
