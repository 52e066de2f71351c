// Package forms tells tests how many of their forms to take. What a test repeats in other forms (variants, numbers of threads, roundings,
// moments) is tested once in each way that may go wrong by itself where tests are run as usual, and in every form with GRPO_FORMS=all,
// as continuous integration and `make forms` have it.
package forms

import "os"

// All is whether every form is wanted.
var All = os.Getenv("GRPO_FORMS") == "all"

// Each gives every form, or usually the first and each so many after it.
func Each[T any](of int, forms ...T) []T {
	if All {
		return forms
	}
	var some []T
	for i := 0; i < len(forms); i += of {
		some = append(some, forms[i])
	}
	return some
}

// Usual is a number that is another where every form is wanted.
func Usual(usual, all int) int {
	if All {
		return all
	}
	return usual
}
