package main

import "slices"

// pairOps compute with two positive integers.
var pairOps = []op{
	{name: "add", out: integer, says: list("the sum of {v} and {u}", "{v} plus {u}"),
		code: "{v} + {u}", wrong: list("{v} - {u}", "{v} * {u}"),
		eval: on(func(_ env, p [2]int) any { return p[0] + p[1] })},
	{name: "subtract", out: integer, says: list("{v} minus {u}", "{v} reduced by {u}"),
		code: "{v} - {u}", wrong: list("{u} - {v}", "{v} + {u}"),
		eval: on(func(_ env, p [2]int) any { return p[0] - p[1] })},
	{name: "multiply", out: integer, says: list("the product of {v} and {u}", "{v} times {u}"),
		code: "{v} * {u}", wrong: list("{v} + {u}", "{v} ** {u}"),
		eval: on(func(_ env, p [2]int) any { return p[0] * p[1] })},
	{name: "larger", out: integer, says: list("the larger of {v} and {u}", "the maximum of {v} and {u}"),
		code: "max({v}, {u})", wrong: list("min({v}, {u})", "max({v})"),
		eval: on(func(_ env, p [2]int) any { return max(p[0], p[1]) })},
	{name: "smaller", out: integer, says: list("the smaller of {v} and {u}", "the minimum of {v} and {u}"),
		code: "min({v}, {u})", wrong: list("max({v}, {u})", "min({v})"),
		eval: on(func(_ env, p [2]int) any { return min(p[0], p[1]) })},
	{name: "apart", out: integer, says: list("the distance between {v} and {u}", "the absolute difference of {v} and {u}"),
		code: "abs({v} - {u})", wrong: list("{v} - {u}", "abs({v} + {u})"),
		eval: on(func(_ env, p [2]int) any { return max(p[0]-p[1], p[1]-p[0]) })},
	{name: "weighted", out: integer, says: list("{v} plus {k} times {u}", "the sum of {v} and {k} times {u}"),
		code: "{v} + {k} * {u}", wrong: list("({v} + {k}) * {u}", "{v} * {k} + {u}"),
		eval: on(func(e env, p [2]int) any { return p[0] + e.k*p[1] })},
	{name: "divide", out: integer, says: list("{v} divided by {u}, rounded down", "how many times {u} goes into {v}"),
		code: "{v} // {u}", wrong: list("{v} / {u}", "{v} % {u}"),
		eval: on(func(_ env, p [2]int) any { return p[0] / p[1] })},
	{name: "modulo", out: integer, says: list("the remainder of {v} divided by {u}", "{v} modulo {u}"),
		code: "{v} % {u}", wrong: list("{v} // {u}", "{v} / {u}"),
		eval: on(func(_ env, p [2]int) any { return p[0] % p[1] })},
	{name: "exceeds", out: boolean, says: list("{v} is greater than {u}", "{v} is more than {u}"),
		code: "{v} > {u}", wrong: list("{v} >= {u}", "{v} < {u}"),
		eval: on(func(_ env, p [2]int) any { return p[0] > p[1] })},
	{name: "divides", out: boolean, says: list("{v} is divisible by {u}", "{v} is a multiple of {u}"),
		code: "{v} % {u} == 0", wrong: list("{v} % {u}", "{v} // {u} == 0"),
		eval: on(func(_ env, p [2]int) any { return p[0]%p[1] == 0 })},
	{name: "equal", out: boolean, says: list("{v} and {u} are equal", "{v} is the same as {u}"),
		code: "{v} == {u}", wrong: list("{v} = {u}", "{v} != {u}"),
		eval: on(func(_ env, p [2]int) any { return p[0] == p[1] })},
}

// numbersOps compute with a list of integers.
var numbersOps = []op{
	{name: "sum", out: integer, says: list("the sum of {v}", "the sum of all numbers in {v}"),
		code: "sum({v})", wrong: list("len({v})", "sum({v}[1:])"),
		eval: on(func(_ env, a []int) any { return total(a) })},
	{name: "max", out: integer, says: list("the largest number in {v}", "the maximum of {v}"),
		code: "max({v})", wrong: list("min({v})", "{v}[-1]"),
		eval: on(func(_ env, a []int) any { return slices.Max(a) })},
	{name: "min", out: integer, says: list("the smallest number in {v}", "the minimum of {v}"),
		code: "min({v})", wrong: list("max({v})", "{v}[0]"),
		eval: on(func(_ env, a []int) any { return slices.Min(a) })},
	{name: "spread", out: integer, says: list("the largest minus the smallest number in {v}", "the maximum minus the minimum of {v}"),
		code: "max({v}) - min({v})", wrong: list("max({v})", "min({v}) - max({v})"),
		eval: on(func(_ env, a []int) any { return slices.Max(a) - slices.Min(a) })},
	{name: "length", out: integer, says: list("the length of {v}", "how many numbers {v} has"),
		code: "len({v})", wrong: list("sum({v})", "len({v}) - 1"),
		eval: on(func(_ env, a []int) any { return len(a) })},
	{name: "last", out: integer, says: list("the last number in {v}", "the last element of {v}"),
		code: "{v}[-1]", wrong: list("{v}[0]", "{v}[1]"),
		eval: on(func(_ env, a []int) any { return a[len(a)-1] })},
	{name: "count-above", out: integer,
		says: list("how many numbers in {v} are greater than {k}", "the number of elements of {v} above {k}"),
		code: "sum(1 for x in {v} if x > {k})", wrong: list("sum(x for x in {v} if x > {k})", "sum(1 for x in {v} if x >= {k})"),
		eval: on(func(e env, a []int) any { return len(keep(a, func(x int) bool { return x > e.k })) })},
	{name: "count-even", out: integer, says: list("how many numbers in {v} are even", "the number of even elements of {v}"),
		code: "sum(1 for x in {v} if x % 2 == 0)", wrong: list("sum(1 for x in {v} if x % 2 == 1)", "sum(x for x in {v} if x % 2 == 0)"),
		eval: on(func(_ env, a []int) any { return len(keep(a, isEven)) })},
	{name: "count-equal", out: integer, says: list("how often {k} occurs in {v}", "how many numbers in {v} are equal to {k}"),
		code: "{v}.count({k})", wrong: list("count({v}, {k})", "len({v})"),
		eval: on(func(e env, a []int) any { return len(keep(a, func(x int) bool { return x == e.k })) })},
	{name: "sum-above", out: integer,
		says: list("the sum of the numbers in {v} greater than {k}", "the sum of the elements of {v} above {k}"),
		code: "sum(x for x in {v} if x > {k})", wrong: list("sum(1 for x in {v} if x > {k})", "sum(x for x in {v} if x < {k})"),
		eval: on(func(e env, a []int) any { return total(keep(a, func(x int) bool { return x > e.k })) })},
	{name: "sum-even", out: integer, says: list("the sum of the even numbers in {v}", "the sum of the even elements of {v}"),
		code: "sum(x for x in {v} if x % 2 == 0)", wrong: list("sum(x for x in {v} if x % 2 == 1)", "sum(1 for x in {v} if x % 2 == 0)"),
		eval: on(func(_ env, a []int) any { return total(keep(a, isEven)) })},
	{name: "product", out: integer, says: list("the product of all numbers in {v}", "all numbers in {v} multiplied together"),
		code:  "t = 1\nfor x in {v}:\n    t *= x\nt",
		wrong: list("t = 0\nfor x in {v}:\n    t *= x\nt", "t = 1\nfor x in {v}:\n    t += x\nt"),
		eval: on(func(_ env, a []int) any {
			t := 1
			for _, x := range a {
				t *= x
			}
			return t
		})},
	{name: "contains", out: boolean, says: list("{k} occurs in {v}", "{v} contains {k}"),
		code: "{k} in {v}", wrong: list("{k} not in {v}", "{v} in {k}"),
		eval: on(func(e env, a []int) any { return slices.Contains(a, e.k) })},
	{name: "all-above", out: boolean, says: list("all numbers in {v} are greater than -{k}", "every element of {v} is above -{k}"),
		code: "all(x > -{k} for x in {v})", wrong: list("any(x > -{k} for x in {v})", "all(x < -{k} for x in {v})"),
		eval: on(func(e env, a []int) any { return slices.Min(a) > -e.k })},
	{name: "shift", out: numbers, says: list("each number in {v} plus {k}", "every element of {v} increased by {k}"),
		code: "[x + {k} for x in {v}]", wrong: list("{v} + {k}", "[x - {k} for x in {v}]"),
		eval: on(func(e env, a []int) any { return each(a, func(x int) int { return x + e.k }) })},
	{name: "scale", out: numbers, says: list("each number in {v} times {k}", "every element of {v} multiplied by {k}"),
		code: "[x * {k} for x in {v}]", wrong: list("{v} * {k}", "[x + {k} for x in {v}]"),
		eval: on(func(e env, a []int) any { return each(a, func(x int) int { return x * e.k }) })},
	{name: "squares", out: numbers, says: list("the square of each number in {v}", "every element of {v} squared"),
		code: "[x * x for x in {v}]", wrong: list("[x * 2 for x in {v}]", "{v} * {v}"),
		eval: on(func(_ env, a []int) any { return each(a, func(x int) int { return x * x }) })},
	{name: "keep-above", out: numbers, says: list("the numbers in {v} greater than {k}", "the elements of {v} above {k}"),
		code: "[x for x in {v} if x > {k}]", wrong: list("[x for x in {v} if x >= {k}]", "[x for x in {v} if x < {k}]"),
		eval: on(func(e env, a []int) any { return keep(a, func(x int) bool { return x > e.k }) })},
	{name: "keep-even", out: numbers, says: list("the even numbers in {v}", "the even elements of {v}"),
		code: "[x for x in {v} if x % 2 == 0]", wrong: list("[x for x in {v} if x % 2 == 1]", "[x % 2 == 0 for x in {v}]"),
		eval: on(func(_ env, a []int) any { return keep(a, isEven) })},
	{name: "sort", out: numbers, says: list("{v} in increasing order", "the numbers in {v} sorted from small to large"),
		code: "sorted({v})", wrong: list("{v}.sort()", "sorted({v})[::-1]"),
		eval: on(func(_ env, a []int) any { return slices.Sorted(slices.Values(a)) })},
	{name: "sort-down", out: numbers, says: list("{v} in decreasing order", "the numbers in {v} sorted from large to small"),
		code: "sorted({v})[::-1]", wrong: list("sorted({v})", "{v}[::-1]"),
		eval: on(func(_ env, a []int) any { return backwards(slices.Sorted(slices.Values(a))) })},
	{name: "reverse", out: numbers, says: list("{v} in reverse order", "the numbers in {v} from last to first"),
		code: "{v}[::-1]", wrong: list("{v}.reverse()", "{v}[-1]"),
		eval: on(func(_ env, a []int) any { return backwards(a) })},
	{name: "first", out: numbers, small: true, says: list("the first {k} numbers in {v}", "the first {k} elements of {v}"),
		code: "{v}[:{k}]", wrong: list("{v}[{k}:]", "{v}[{k}]"),
		eval: on(func(e env, a []int) any { return a[:e.k] })},
	{name: "skip", out: numbers, small: true, says: list("{v} without the first {k} numbers", "all elements of {v} after the first {k}"),
		code: "{v}[{k}:]", wrong: list("{v}[:{k}]", "{v}[{k} + 1:]"),
		eval: on(func(e env, a []int) any { return a[e.k:] })},
	{name: "every-second", out: numbers,
		says: list("every second number in {v}, beginning with the first", "every other element of {v}, from the first on"),
		code: "{v}[::2]", wrong: list("{v}[1::2]", "{v}[:2]"),
		eval: on(func(_ env, a []int) any { return alternate(a) })},
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

func alternate[T any](a []T) []T {
	var out []T
	for i := 0; i < len(a); i += 2 {
		out = append(out, a[i])
	}
	return out
}
