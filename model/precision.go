package model

import (
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/given"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Quantisation is what becomes of frozen matrices when a model is read.
type Quantisation uint8

const (
	AsStored Quantisation = iota // they stay as the files have them
	NF4                          // those of the layers take four bits a weight, as in the model that nf4.QuantiseModel writes
)

var quantisations = []string{"none", "nf4"}

func (q Quantisation) String() string { return quantisations[q] }

// ParseQuantisation understands none and nf4. Nothing is none.
func ParseQuantisation(s string) (Quantisation, error) {
	if i := slices.Index(quantisations, s); i >= 0 || s == "" {
		return Quantisation(max(i, 0)), nil
	}
	return 0, badinput.Errorf("found %q, expected none or nf4", s)
}

// readers read matrices of four bits, and describe them to plan memory with.
func (q Quantisation) readers() (read, describe nf4.Reader) {
	if q == NF4 {
		return nf4.ReadQuantising, nf4.DescribeQuantising
	}
	return nf4.Read, nf4.Describe
}

// Precision is what every number is rounded to before it is multiplied with a bf16 weight, or with one that is trained, which then is
// rounded, too. Sampler and trainer of a policy have the same, so that they agree to the bit either way. With BF16, a backend that is a
// kernels.Narrower keeps what gradients read in bf16, too.
type Precision uint8

const (
	F32  Precision = iota // nothing is rounded
	BF16                  // as on most accelerators; twice as fast where the processor has instructions for it
	I16                   // to 15 bits of the largest of 64 numbers, where a weight has four bits: kernels.I16Rounding; F32 elsewhere

	// Auto is BF16 where the backend prefers that and the weights are frozen bf16, else F32; of a cache, also with BF16 in the order of
	// tiles; of an adapter, there alone.
	Auto
)

var precisionNames = []string{"f32", "bf16", "int16", "auto"}

func (p Precision) String() string { return precisionNames[p] }

// ParsePrecision understands auto, f32, bf16 and int16. Nothing is f32: runs of before there was a choice say nothing.
func ParsePrecision(s string) (Precision, error) {
	if i := slices.Index(precisionNames, s); i >= 0 || s == "" {
		return Precision(max(i, 0)), nil
	}
	return 0, badinput.Errorf("found %q, expected auto, f32, bf16 or int16", s)
}

// ParseCache understands auto, f32 and bf16: what keys and values are rounded to.
func ParseCache(s string) (Precision, error) {
	p, err := ParsePrecision(s)
	if err != nil || p == I16 {
		return 0, badinput.Errorf("found %q, expected auto, f32 or bf16", s)
	}
	return p, nil
}

// checkWhole refuses I16 where nothing is multiplied in whole numbers. set are the model's tensors, or nil.
func (o Options) checkWhole(b kernels.Backend, set *tensorfile.Set) error {
	if o.Precision == I16 && !kernels.MultipliesWhole(b) {
		return badinput.Errorf("a precision of int16 is for the processor, and this is %s; take precision bf16", b.Name())
	}
	if o.Precision == I16 && o.Quantise != NF4 && (set == nil || !nf4.Any(set)) {
		return badinput.Errorf("a precision of int16 is for weights of four bits, and the model has none; take quantize nf4, or precision f32")
	}
	return nil
}

// settled are the options with what auto stands for; frozen tells whether all matrices are frozen bf16.
func (o Options) settled(b kernels.Backend, frozen func() bool) Options {
	given.All("model.Open", "b", b)
	usual := F32
	if kernels.RoundsUsually(b) && frozen() {
		usual = BF16
	}
	if o.Precision == Auto {
		o.Precision = usual
	}
	adapter := F32
	if order, _ := kernels.OrderOf(b); order == kernels.Tiles && o.Precision == BF16 {
		usual, adapter = BF16, BF16 // a tile unit multiplies bf16 alone: over f32, attention would take longer than all else
	}
	if o.Cache == Auto {
		o.Cache = min(o.Precision, usual)
	}
	if o.AdapterPrecision == Auto {
		o.AdapterPrecision = adapter
	}
	return o
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

// Trained is what kernels read a matrix that is trained from: an adapter's, or a weight.
func (p Precision) Trained() kernels.DType {
	if p == BF16 {
		return kernels.BF16Rounding
	}
	return kernels.F32
}

// Quantised is what one of frozen weights of four bits is made of.
func (p Precision) Quantised() kernels.DType {
	if p == I16 {
		return kernels.I16Rounding
	}
	return p.Frozen()
}
