package model

import (
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Quantisation says whether frozen matrices are quantised when a model is read.
type Quantisation uint8

const (
	AsStored Quantisation = iota // no: they stay as stored in the files
	NF4                          // the layers' matrices, to 4-bit NormalFloat, with the same bits that nf4.QuantiseModel writes
)

var quantisations = []string{"none", "nf4"}

func (q Quantisation) String() string { return quantisations[q] }

// ParseQuantisation parses none and nf4; "" is none.
func ParseQuantisation(s string) (Quantisation, error) {
	if i := slices.Index(quantisations, s); i >= 0 || s == "" {
		return Quantisation(max(i, 0)), nil
	}
	return 0, badinput.Errorf("found %q, expected none or nf4", s)
}

// readers are the functions that read 4-bit matrices, and that describe them for a memory plan.
func (q Quantisation) readers() (read, describe nf4.Reader) {
	if q == NF4 {
		return nf4.ReadQuantising, nf4.DescribeQuantising
	}
	return nf4.Read, nf4.Describe
}

// Precision is the type that activations are rounded to before they are multiplied with a bf16 weight, or with a trained weight, whose
// copy is rounded, too. Sums are f32. Sampler and trainer of a policy have the same precision, so that they agree to the bit. With
// BF16, a backend that is a kernels.Narrower also keeps the activations that the backward pass needs in bf16.
type Precision uint8

const (
	F32  Precision = iota // no rounding
	BF16                  // as on most accelerators; twice as fast if the processor has instructions for it
	I16                   // for 4-bit weights: integer products, with a scale for every 64 inputs (kernels.I16Rounding); F32 for others

	// Auto is BF16 if the backend prefers it and all weights are frozen bf16, else F32. For a KV cache it is also BF16 if the precision
	// is BF16 in the order of tiles; for an adapter only then.
	Auto
)

var precisionNames = []string{"f32", "bf16", "int16", "auto"}

func (p Precision) String() string { return precisionNames[p] }

// ParsePrecision parses auto, f32, bf16 and int16; "" is f32, as old runs have no such setting.
func ParsePrecision(s string) (Precision, error) {
	if i := slices.Index(precisionNames, s); i >= 0 || s == "" {
		return Precision(max(i, 0)), nil
	}
	return 0, badinput.Errorf("found %q, expected auto, f32, bf16 or int16", s)
}

// ParseCache parses the precision of keys and values: auto, f32 or bf16.
func ParseCache(s string) (Precision, error) {
	p, err := ParsePrecision(s)
	if err != nil || p == I16 {
		return 0, badinput.Errorf("found %q, expected auto, f32 or bf16", s)
	}
	return p, nil
}

// resolved resolves Auto in the options; frozen reports whether all matrices are frozen bf16.
func (o Options) resolved(b kernels.Backend, frozen func() bool) Options {
	precondition.NotNil("model.Open", "b", b)
	precondition.InRange("model.Options", "MaxRows", o.MaxRows, 0, math.MaxInt)
	for _, p := range []Precision{o.Precision, o.Cache, o.AdapterPrecision} {
		precondition.InRange("model.Options", "a precision", int(p), int(F32), int(Auto))
	}
	usual := F32
	if kernels.RoundsUsually(b) && frozen() {
		usual = BF16
	}
	if o.Precision == Auto {
		o.Precision = usual
	}
	adapter := F32
	if order, _ := kernels.OrderOf(b); order == kernels.Tiles && o.Precision == BF16 {
		usual, adapter = BF16, BF16 // a tile unit multiplies bf16 only: attention over f32 would take longer than everything else
	}
	if o.Cache == Auto {
		o.Cache = min(o.Precision, usual)
	}
	if o.AdapterPrecision == Auto {
		o.AdapterPrecision = adapter
	}
	return o
}

// Cached is the type of keys and values in a KV cache.
func (p Precision) Cached() kernels.DType {
	if p == BF16 {
		return kernels.BF16
	}
	return kernels.F32
}

// Frozen is the type of a matrix of frozen bf16 weights.
func (p Precision) Frozen() kernels.DType {
	if p == BF16 {
		return kernels.BF16Rounding
	}
	return kernels.BF16
}

// Trained is the type of the copy that kernels read of a trained matrix.
func (p Precision) Trained() kernels.DType {
	if p == BF16 {
		return kernels.BF16Rounding
	}
	return kernels.F32
}

// Quantised is the type of a matrix of frozen 4-bit weights.
func (p Precision) Quantised() kernels.DType {
	if p == I16 {
		return kernels.I16Rounding
	}
	return p.Frozen()
}
