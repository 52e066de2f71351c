package main

import "fmt"

// integerOps compute with one integer. Inputs are positive.
var integerOps = []op{
	{name: "plus", out: integer, says: list("{v} plus {k}", "the sum of {v} and {k}"),
		code: "{v} + {k}",
		eval: on(func(e env, n int) any { return n + e.k })},
	{name: "minus", out: integer, says: list("{v} minus {k}", "{v} reduced by {k}"),
		code: "{v} - {k}",
		eval: on(func(e env, n int) any { return n - e.k })},
	{name: "times", out: integer, says: list("{v} times {k}", "the product of {v} and {k}"),
		code: "{v} * {k}",
		eval: on(func(e env, n int) any { return n * e.k })},
	{name: "quotient", out: integer, says: list("{v} divided by {k}, rounded down", "how many times {k} goes into {v}"),
		code: "{v} // {k}",
		eval: on(func(e env, n int) any { return n / e.k })},
	{name: "remainder", out: integer, says: list("the remainder of {v} divided by {k}", "{v} modulo {k}"),
		code: "{v} % {k}",
		eval: on(func(e env, n int) any { return n % e.k })},
	{name: "digit-sum", out: integer, says: list("the sum of the digits of {v}", "the digit sum of {v}"),
		code: "sum(int(c) for c in str({v}))",
		eval: on(func(_ env, n int) any { return n/100 + n/10%10 + n%10 })},
	{name: "digits", out: integer, says: list("the number of digits of {v}", "how many digits {v} has"),
		code: "len(str({v}))",
		eval: on(func(_ env, n int) any { return len(fmt.Sprint(n)) })},
	{name: "even", out: boolean, says: list("{v} is even", "{v} is an even number"),
		code: "{v} % 2 == 0",
		eval: on(func(_ env, n int) any { return n%2 == 0 })},
	{name: "divisible", out: boolean, says: list("{v} is divisible by {k}", "{v} is a multiple of {k}"),
		code: "{v} % {k} == 0",
		eval: on(func(e env, n int) any { return n%e.k == 0 })},
	{name: "above", out: boolean, says: list("{v} is greater than {k}", "{v} is more than {k}"),
		code: "{v} > {k}",
		eval: on(func(e env, n int) any { return n > e.k })},
	{name: "count-up", out: numbers, says: list("the integers from 1 to {v}", "all integers from 1 up to {v}"),
		code: "list(range(1, {v} + 1))",
		eval: on(func(_ env, n int) any { return progression(1, n, 1) })},
	{name: "multiples", out: numbers, says: list("the multiples of {k} up to {v}", "all multiples of {k} from {k} to {v}"),
		code: "list(range({k}, {v} + 1, {k}))",
		eval: on(func(e env, n int) any { return progression(e.k, n, e.k) })},
}

// progression is the integers from, from+by, … up to last.
func progression(from, last, by int) []int {
	a := []int{}
	for i := from; i <= last; i += by {
		a = append(a, i)
	}
	return a
}

func repeat(s string, n int) string {
	out := ""
	for range n {
		out += s
	}
	return out
}
