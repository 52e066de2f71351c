package model

import (
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Precision is what every number is rounded to before it is multiplied with a frozen bf16 weight. The sampler and the
// trainer of a policy have the same, so that they agree to the bit either way.
type Precision uint8

const (
	F32  Precision = iota // nothing is rounded
	BF16                  // as on most accelerators; twice as fast where the processor has instructions for it
)

// ParsePrecision understands f32 and bf16. Nothing is f32: runs of before there was a choice say nothing.
func ParsePrecision(s string) (Precision, error) {
	switch s {
	case "f32", "":
		return F32, nil
	case "bf16":
		return BF16, nil
	}
	return 0, badinput.Errorf("found %q, expected f32 or bf16", s)
}

// ParseCache understands what keys and values are rounded to: f32, bf16, or auto, which is the precision of everything
// else. Nothing is f32, as above.
func ParseCache(s string, precision Precision) (Precision, error) {
	if s == "auto" {
		return precision, nil
	}
	p, err := ParsePrecision(s)
	if err != nil {
		err = badinput.Errorf("found %q, expected auto, f32 or bf16", s)
	}
	return p, err
}

// Cached is what a cache of keys and values is made of.
func (p Precision) Cached() kernels.DType {
	if p == BF16 {
		return kernels.BF16
	}
	return kernels.F32
}

// Frozen is what a matrix of frozen bf16 weights is made of.
func (p Precision) Frozen() kernels.DType {
	if p == BF16 {
		return kernels.BF16Rounding
	}
	return kernels.BF16
}
