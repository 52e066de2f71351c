package copies

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Slabs are parameters and their gradients, in the same order. Without training Grads is nil.
type Slabs struct{ Params, Grads kernels.Buffer }

// NewSlabs makes room for n parameters.
func NewSlabs(b kernels.Backend, n int, learns bool) (s Slabs, err error) {
	if s.Params, err = b.Alloc(kernels.F32, n); err != nil {
		return s, fmt.Errorf("parameters: %w", err)
	}
	if !learns {
		return s, nil
	}
	if s.Grads, err = b.Alloc(kernels.F32, n); err != nil {
		return s, fmt.Errorf("gradients: %w", err)
	}
	return s, nil
}

// Within are the parameters of a range and their gradients.
func (s *Slabs) Within(from, to int) (params, grads kernels.Buffer) {
	if s.Grads != nil {
		grads = s.Grads.Slice(from, to)
	}
	return s.Params.Slice(from, to), grads
}
