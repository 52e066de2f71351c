package cpu

// #include "kernels.h"
import "C"

import (
	"os"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// variants are those that this machine can run, widest first.
func variants() []*C.grpo_variant {
	var out []*C.grpo_variant
	for _, v := range []*C.grpo_variant{C.grpo_avx512(), C.grpo_avx2(), C.grpo_portable()} {
		if v != nil {
			out = append(out, v)
		}
	}
	return out
}

// Variants names the sets of kernels that this machine can run, widest first.
func Variants() []string {
	var names []string
	for _, v := range variants() {
		names = append(names, C.GoString(v.name))
	}
	return names
}

func chooseVariant(name string) (*C.grpo_variant, error) {
	from := "Options.Variant"
	if name == "" {
		name, from = os.Getenv("GRPO_CPU"), "GRPO_CPU"
	}
	if name == "" {
		return fastest(), nil
	}
	for _, v := range variants() {
		if C.GoString(v.name) == name {
			return v, nil
		}
	}
	return nil, badinput.Errorf("%s is %q; this machine runs one of %q", from, name, Variants())
}

// fastest is measured, not read from the processor's flags: on some machines wide vectors slow the clock
// so much that narrow ones win. A narrower variant must be clearly faster, so that noise does not choose.
var fastest = sync.OnceValue(func() *C.grpo_variant {
	all := variants()
	best, bestRate := all[0], peakOf(all[0])
	for _, v := range all[1:] {
		if rate := peakOf(v); rate > 1.1*bestRate {
			best, bestRate = v, rate
		}
	}
	return best
})
