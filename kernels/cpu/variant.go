package cpu

// #include "kernels.h"
import "C"

import (
	"os"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// variants are those that this machine can run: the one with the tile unit first, then by decreasing vector width.
var variants = sync.OnceValue(func() []*C.grpo_variant {
	var out []*C.grpo_variant
	for _, v := range []*C.grpo_variant{C.grpo_amx(), C.grpo_avx512(), C.grpo_avx2(), C.grpo_portable()} {
		if v != nil {
			out = append(out, v)
		}
	}
	return out
})

func hasTileUnit(v *C.grpo_variant) bool { return C.GoString(v.name) == "amx" }

// Variants names the sets of kernels that this machine can run, widest first.
func Variants() []string {
	var names []string
	for _, v := range variants() {
		names = append(names, C.GoString(v.name))
	}
	return names
}

func chooseVariant(name string, order kernels.Order) (*C.grpo_variant, error) {
	from := "Options.Variant"
	if name == "" {
		name, from = os.Getenv("GRPO_CPU"), "GRPO_CPU"
	}
	if name == "" {
		if v := variants()[0]; order == kernels.Tiles && hasTileUnit(v) {
			return v, nil
		}
		return fastest(), nil
	}
	for _, v := range variants() {
		if C.GoString(v.name) == name {
			return v, nil
		}
	}
	return nil, badinput.Errorf("%s is %q; this machine runs one of %q", from, name, Variants())
}

// fastest is the variant for the order in series, for which the tile unit does not help.
var fastest = sync.OnceValue(func() *C.grpo_variant { return fastestOf(variants(), peakOf) })

// fastestOf is the fastest variant without the tile unit. It is measured, because on some processors that are older than the
// unit wide vectors slow the clock so much that narrow ones are faster. A narrower variant must be clearly faster, and again
// when the two are measured by turns, so that noise does not decide.
func fastestOf(all []*C.grpo_variant, peakOf func(*C.grpo_variant) float64) *C.grpo_variant {
	if hasTileUnit(all[0]) {
		return all[1] // its vectors are as wide as those of the variant with the unit, so SetSums can change between the two
	}
	best, bestRate := all[0], peakOf(all[0])
	for _, v := range all[1:] {
		if peakOf(v) <= clearly*bestRate {
			continue
		}
		wide, narrow := alternately(func() float64 { return peakOf(best) }, func() float64 { return peakOf(v) })
		if narrow > clearly*wide {
			best, bestRate = v, narrow
		}
	}
	return best
}
