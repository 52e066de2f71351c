package main

import "slices"

// pairOps compute with two positive integers.
var pairOps = []op{
	{name: "add", out: integer, says: list("the sum of {v} and {u}", "{v} plus {u}"),
		code: "{v} + {u}",
		eval: on(func(_ env, p [2]int) any { return p[0] + p[1] })},
	{name: "subtract", out: integer, says: list("{v} minus {u}", "{v} reduced by {u}"),
		code: "{v} - {u}",
		eval: on(func(_ env, p [2]int) any { return p[0] - p[1] })},
	{name: "multiply", out: integer, says: list("the product of {v} and {u}", "{v} times {u}"),
		code: "{v} * {u}",
		eval: on(func(_ env, p [2]int) any { return p[0] * p[1] })},
	{name: "larger", out: integer, says: list("the larger of {v} and {u}", "the maximum of {v} and {u}"),
		code: "max({v}, {u})",
		eval: on(func(_ env, p [2]int) any { return max(p[0], p[1]) })},
	{name: "exceeds", out: boolean, says: list("{v} is greater than {u}", "{v} is more than {u}"),
		code: "{v} > {u}",
		eval: on(func(_ env, p [2]int) any { return p[0] > p[1] })},
	{name: "equal", out: boolean, says: list("{v} and {u} are equal", "{v} is the same as {u}"),
		code: "{v} == {u}",
		eval: on(func(_ env, p [2]int) any { return p[0] == p[1] })},
}

// numbersOps compute with a list of integers.
var numbersOps = []op{
	{name: "sum", out: integer, says: list("the sum of {v}", "the sum of all numbers in {v}"),
		code: "sum({v})",
		eval: on(func(_ env, a []int) any { return total(a) })},
	{name: "max", out: integer, says: list("the largest number in {v}", "the maximum of {v}"),
		code: "max({v})",
		eval: on(func(_ env, a []int) any { return slices.Max(a) })},
	{name: "length", out: integer, says: list("the length of {v}", "how many numbers {v} has"),
		code: "len({v})",
		eval: on(func(_ env, a []int) any { return len(a) })},
	{name: "last", out: integer, says: list("the last number in {v}", "the last element of {v}"),
		code: "{v}[-1]",
		eval: on(func(_ env, a []int) any { return a[len(a)-1] })},
	{name: "count-above", out: integer,
		says: list("how many numbers in {v} are greater than {k}", "the number of elements of {v} above {k}"),
		code: "sum(1 for x in {v} if x > {k})",
		eval: on(func(e env, a []int) any { return len(keep(a, func(x int) bool { return x > e.k })) })},
	{name: "contains", out: boolean, says: list("{k} occurs in {v}", "{v} contains {k}"),
		code: "{k} in {v}",
		eval: on(func(e env, a []int) any { return slices.Contains(a, e.k) })},
	{name: "shift", out: numbers, says: list("each number in {v} plus {k}", "every element of {v} increased by {k}"),
		code: "[x + {k} for x in {v}]",
		eval: on(func(e env, a []int) any { return each(a, func(x int) int { return x + e.k }) })},
	{name: "scale", out: numbers, says: list("each number in {v} times {k}", "every element of {v} multiplied by {k}"),
		code: "[x * {k} for x in {v}]",
		eval: on(func(e env, a []int) any { return each(a, func(x int) int { return x * e.k }) })},
	{name: "keep-above", out: numbers, says: list("the numbers in {v} greater than {k}", "the elements of {v} above {k}"),
		code: "[x for x in {v} if x > {k}]",
		eval: on(func(e env, a []int) any { return keep(a, func(x int) bool { return x > e.k }) })},
	{name: "keep-even", out: numbers, says: list("the even numbers in {v}", "the even elements of {v}"),
		code: "[x for x in {v} if x % 2 == 0]",
		eval: on(func(_ env, a []int) any { return keep(a, isEven) })},
	{name: "sort", out: numbers, says: list("{v} in increasing order", "the numbers in {v} sorted from small to large"),
		code: "sorted({v})",
		eval: on(func(_ env, a []int) any { return slices.Sorted(slices.Values(a)) })},
	{name: "reverse", out: numbers, says: list("{v} in reverse order", "the numbers in {v} from last to first"),
		code: "{v}[::-1]",
		eval: on(func(_ env, a []int) any { return backwards(a) })},
	{name: "first", out: numbers, small: true, says: list("the first {k} numbers in {v}", "the first {k} elements of {v}"),
		code: "{v}[:{k}]",
		eval: on(func(e env, a []int) any { return a[:e.k] })},
}

func isEven(x int) bool { return x%2 == 0 }

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
