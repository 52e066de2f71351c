// Package asked checks what a program asks of a policy before anything is computed: adapters, precisions, losses, and the rows of a
// decoder.
package asked

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
)

// Adapter refuses an adapter that does not fit a model of these sizes, or whose values are not all there and finite. The adapter of a
// sketch needs no values.
func Adapter(a *lora.Adapter, d lora.Dims, sketch bool) error {
	if a.Layout == nil {
		return badinput.Errorf("the adapter has no layout; make it by lora.New, or read it by lora.Load")
	}
	if a.Dims != d {
		return badinput.Errorf("the adapter is for a model of sizes %+v, but this one has %+v", a.Dims, d)
	}
	if n := len(a.Values); n == 0 && sketch {
		return nil
	} else if n != a.Len() {
		return badinput.Errorf("the adapter has %d numbers, but its layout has %d", n, a.Len())
	}
	for i, x := range a.Values {
		if x-x != 0 {
			return badinput.Errorf("the adapter has %v at offset %d, in %s; expected finite numbers", x, i, a.Locate(i))
		}
	}
	return nil
}

// Integers refuses integer products if the backend has none, or the model no 4-bit weights. quantised: frozen ones are quantised when
// they are read. set are the model's tensors, or nil.
func Integers(b kernels.Backend, set *tensorfile.Set, wanted, quantised bool) error {
	if wanted && !kernels.MultipliesWhole(b) {
		return badinput.Errorf("precision int16 is for the processor, and this is %s; take precision bf16", b.Name())
	}
	if wanted && !quantised && (set == nil || !nf4.AnyQuantised(set)) {
		return badinput.Errorf("precision int16 is for weights of four bits, and the model has none; take quantize nf4, or precision f32")
	}
	return nil
}

// Loss refuses a loss that clips every ratio to nothing, as one does whose range was left out.
func Loss(l kernels.Loss) error {
	clips := l.Kind == kernels.PPO || l.Kind == kernels.CISPO
	if clips && !(l.Low <= l.High && l.High > 0) { // no ratio is below 0, so a negative bound is as good as 0
		return badinput.Errorf("loss %s: found a clip range of %v to %v; it bounds the ratio itself, as 0.8 and 1.2 do; "+
			"kernels.ParseLoss gives the usual one", l.Kind, l.Low, l.High)
	}
	return nil
}

// Rows refuses rows of a decoder's run whose slices do not go together: rows starts[i] up to starts[i+1] are of sequence i, and each
// sequence has stride blocks in tables, and an adapter if there are any.
func Rows(tokens, positions, starts, tables []int32, stride, adapters int) error {
	sequences := len(starts) - 1
	switch {
	case sequences < 0:
		return fmt.Errorf("model: %d rows, and no starts; expected 0, then where each sequence ends", len(tokens))
	case starts[0] != 0 || int(starts[sequences]) != len(tokens): // the slice itself is not printed, since it would be allocated
		return fmt.Errorf("model: %d rows, and starts from %d to %d; expected 0, then where each sequence ends, the last with the rows",
			len(tokens), starts[0], starts[sequences])
	case len(positions) != len(tokens):
		return fmt.Errorf("model: %d positions for %d tokens, expected one for each", len(positions), len(tokens))
	case adapters != 0 && adapters != sequences:
		return fmt.Errorf("model: %d adapters for %d runs of rows", adapters, sequences)
	case len(tables) != sequences*stride:
		return fmt.Errorf("model: %d blocks in the tables of %d sequences, expected %d for each", len(tables), sequences, stride)
	}
	for i := range sequences {
		if starts[i+1] < starts[i] {
			return fmt.Errorf("model: sequence %d is rows %d to %d, expected none to end before it starts", i, starts[i], starts[i+1])
		}
	}
	return nil
}
