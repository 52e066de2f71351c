// Package testvariants tells tests how many of their variants to run. What a test repeats in many forms (variants, numbers of threads,
// roundings, moments) usually runs in those that can fail independently, and with GRPO_FORMS=all, as in continuous integration and
// `make forms`, in every form.
package testvariants

import "os"

// Exhaustive is whether to run every form.
var Exhaustive = os.Getenv("GRPO_FORMS") == "all"

// EveryNth returns every form, or usually the first and every of-th after it.
func EveryNth[T any](of int, forms ...T) []T {
	if Exhaustive {
		return forms
	}
	var some []T
	for i := 0; i < len(forms); i += of {
		some = append(some, forms[i])
	}
	return some
}

// Limit returns all if every form is run, else usual.
func Limit(usual, all int) int {
	if Exhaustive {
		return all
	}
	return usual
}
