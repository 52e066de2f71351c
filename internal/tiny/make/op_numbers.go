package main

import "slices"

// numbersOps compute with a list of integers.
var numbersOps = []op{
	{name: "sum", says: list("the sum of {v}", "the sum of all numbers in {v}"),
		code: "sum({v})",
		eval: on(func(_ env, a []int) any { return total(a) })},
	{name: "max", says: list("the largest number in {v}", "the maximum of {v}"),
		code: "max({v})",
		eval: on(func(_ env, a []int) any { return slices.Max(a) })},
	{name: "sort", says: list("{v} in increasing order", "the numbers in {v} sorted from small to large"),
		code: "sorted({v})",
		eval: on(func(_ env, a []int) any { return slices.Sorted(slices.Values(a)) })},
	{name: "reverse", says: list("{v} in reverse order", "the numbers in {v} from last to first"),
		code: "{v}[::-1]",
		eval: on(func(_ env, a []int) any { return backwards(a) })},
	{name: "shift", says: list("each number in {v} plus {k}", "every element of {v} increased by {k}"),
		code: "[x + {k} for x in {v}]",
		eval: on(func(e env, a []int) any { return each(a, func(x int) int { return x + e.k }) })},
	{name: "scale", says: list("each number in {v} times {k}", "every element of {v} multiplied by {k}"),
		code: "[x * {k} for x in {v}]",
		eval: on(func(e env, a []int) any { return each(a, func(x int) int { return x * e.k }) })},
	{name: "keep-above", says: list("the numbers in {v} greater than {k}", "the elements of {v} above {k}"),
		code: "[x for x in {v} if x > {k}]",
		eval: on(func(e env, a []int) any { return keep(a, func(x int) bool { return x > e.k }) })},
}

func total(a []int) (sum int) {
	for _, x := range a {
		sum += x
	}
	return sum
}

func keep[T any](a []T, ok func(T) bool) []T {
	out := []T{}
	for _, x := range a {
		if ok(x) {
			out = append(out, x)
		}
	}
	return out
}

func each[A, B any](a []A, f func(A) B) []B {
	out := make([]B, len(a))
	for i, x := range a {
		out[i] = f(x)
	}
	return out
}

func backwards[T any](a []T) []T {
	out := slices.Clone(a)
	slices.Reverse(out)
	return out
}
