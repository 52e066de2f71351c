package main

import "fmt"

// integerOps compute with one integer. Inputs are positive.
var integerOps = []op{
	{name: "plus", out: integer, says: list("{v} plus {k}", "the sum of {v} and {k}"),
		code: "{v} + {k}", wrong: list("{v} - {k}", "{v} * {k}"),
		eval: on(func(e env, n int) any { return n + e.k })},
	{name: "minus", out: integer, says: list("{v} minus {k}", "{v} reduced by {k}"),
		code: "{v} - {k}", wrong: list("{k} - {v}", "{v} + {k}"),
		eval: on(func(e env, n int) any { return n - e.k })},
	{name: "times", out: integer, says: list("{v} times {k}", "the product of {v} and {k}"),
		code: "{v} * {k}", wrong: list("{v} + {k}", "{v} ** {k}"),
		eval: on(func(e env, n int) any { return n * e.k })},
	{name: "linear", out: integer, says: list("{v} times {k} plus {l}", "{k} times {v}, plus {l}"),
		code: "{v} * {k} + {l}", wrong: list("{v} * ({k} + {l})", "{v} * {k} - {l}"),
		eval: on(func(e env, n int) any { return n*e.k + e.l })},
	{name: "quotient", out: integer, says: list("{v} divided by {k}, rounded down", "how many times {k} goes into {v}"),
		code: "{v} // {k}", wrong: list("{v} / {k}", "{v} % {k}"),
		eval: on(func(e env, n int) any { return n / e.k })},
	{name: "remainder", out: integer, says: list("the remainder of {v} divided by {k}", "{v} modulo {k}"),
		code: "{v} % {k}", wrong: list("{v} // {k}", "{v} / {k}"),
		eval: on(func(e env, n int) any { return n % e.k })},
	{name: "square", out: integer, says: list("the square of {v}", "{v} squared"),
		code: "{v} * {v}", wrong: list("{v} * 2", "{v} ^ 2"),
		eval: on(func(_ env, n int) any { return n * n })},
	{name: "power", out: integer, small: true, says: list("{v} to the power of {k}", "{v} raised to the power {k}"),
		code: "{v} ** {k}", wrong: list("{v} * {k}", "{v} ^ {k}"),
		eval: on(func(e env, n int) any {
			p := 1
			for range e.k {
				p *= n
			}
			return p
		})},
	{name: "distance", out: integer, says: list("the distance between {v} and {k}", "the absolute difference of {v} and {k}"),
		code: "abs({v} - {k})", wrong: list("{v} - {k}", "abs({v} + {k})"),
		eval: on(func(e env, n int) any { return max(n-e.k, e.k-n) })},
	{name: "at-least", out: integer, says: list("the larger of {v} and {k}", "the maximum of {v} and {k}"),
		code: "max({v}, {k})", wrong: list("min({v}, {k})", "max({v})"),
		eval: on(func(e env, n int) any { return max(n, e.k) })},
	{name: "at-most", out: integer, says: list("the smaller of {v} and {k}", "the minimum of {v} and {k}"),
		code: "min({v}, {k})", wrong: list("max({v}, {k})", "min({v})"),
		eval: on(func(e env, n int) any { return min(n, e.k) })},
	{name: "sum-to", out: integer, says: list("the sum of the integers from 1 to {v}", "the sum of all integers from 1 up to {v}"),
		code: "sum(range(1, {v} + 1))", wrong: list("sum(range({v}))", "sum(range(1, {v}))"),
		eval: on(func(_ env, n int) any { return n * (n + 1) / 2 })},
	{name: "sum-steps", out: integer,
		says: list("the sum of the multiples of {k} up to {v}", "the sum of all multiples of {k} from {k} to {v}"),
		code: "sum(range({k}, {v} + 1, {k}))", wrong: list("sum(range({k}, {v}, {k}))", "sum(range({k}, {v} + 1))"),
		eval: on(func(e env, n int) any { return e.k * (n / e.k) * (n/e.k + 1) / 2 })},
	{name: "digit-sum", out: integer, says: list("the sum of the digits of {v}", "the digit sum of {v}"),
		code: "sum(int(c) for c in str({v}))", wrong: list("sum(str({v}))", "sum(int(c) for c in {v})"),
		eval: on(func(_ env, n int) any { return n/100 + n/10%10 + n%10 })},
	{name: "digits", out: integer, says: list("the number of digits of {v}", "how many digits {v} has"),
		code: "len(str({v}))", wrong: list("len({v})", "str({v})"),
		eval: on(func(_ env, n int) any { return len(fmt.Sprint(n)) })},
	{name: "last-digit", out: integer, says: list("the last digit of {v}", "the units digit of {v}"),
		code: "{v} % 10", wrong: list("{v} // 10", "str({v})[0]"),
		eval: on(func(_ env, n int) any { return n % 10 })},
	{name: "divisors", out: integer, says: list("the number of divisors of {v}", "how many divisors {v} has"),
		code: "t = 0\nfor i in range(1, {v} + 1):\n    if {v} % i == 0:\n        t += 1\nt",
		wrong: list("t = 0\nfor i in range(1, {v}):\n    if {v} % i == 0:\n        t += 1\nt",
			"t = 0\nfor i in range({v}):\n    if {v} % i == 0:\n        t += 1\nt"),
		eval: on(func(_ env, n int) any {
			t := 0
			for i := 1; i <= n; i++ {
				if n%i == 0 {
					t++
				}
			}
			return t
		})},
	{name: "even", out: boolean, says: list("{v} is even", "{v} is an even number"),
		code: "{v} % 2 == 0", wrong: list("{v} % 2 == 1", "{v} / 2 == 0"),
		eval: on(func(_ env, n int) any { return n%2 == 0 })},
	{name: "divisible", out: boolean, says: list("{v} is divisible by {k}", "{v} is a multiple of {k}"),
		code: "{v} % {k} == 0", wrong: list("{v} % {k}", "{v} // {k} == 0"),
		eval: on(func(e env, n int) any { return n%e.k == 0 })},
	{name: "above", out: boolean, says: list("{v} is greater than {k}", "{v} is more than {k}"),
		code: "{v} > {k}", wrong: list("{v} >= {k}", "{v} < {k}"),
		eval: on(func(e env, n int) any { return n > e.k })},
	{name: "no-more", out: boolean, says: list("{v} is at most {k}", "{v} is not greater than {k}"),
		code: "{v} <= {k}", wrong: list("{v} < {k}", "{v} >= {k}"),
		eval: on(func(e env, n int) any { return n <= e.k })},
	{name: "between", out: boolean, says: list("{v} is from {k} to {l}", "{v} is between {k} and {l}, both included"),
		code: "{k} <= {v} <= {l}", wrong: list("{k} < {v} < {l}", "{v} >= {k}"),
		eval: on(func(e env, n int) any { return e.k <= n && n <= e.l })},
	{name: "count-up", out: numbers, says: list("the integers from 1 to {v}", "all integers from 1 up to {v}"),
		code: "list(range(1, {v} + 1))", wrong: list("list(range({v}))", "list(range(1, {v}))"),
		eval: on(func(_ env, n int) any { return progression(1, n, 1) })},
	{name: "count-down", out: numbers, says: list("the integers from {v} down to 1", "all integers from {v} down to 1"),
		code: "list(range({v}, 0, -1))", wrong: list("list(range({v}, 0))", "list(range({v}, 1, -1))"),
		eval: on(func(_ env, n int) any { return progression(n, 1, -1) })},
	{name: "multiples", out: numbers, says: list("the multiples of {k} up to {v}", "all multiples of {k} from {k} to {v}"),
		code: "list(range({k}, {v} + 1, {k}))", wrong: list("list(range({k}, {v}, {k}))", "list(range(0, {v} + 1, {k}))"),
		eval: on(func(e env, n int) any { return progression(e.k, n, e.k) })},
	{name: "first-multiples", out: numbers, says: list("the first {v} multiples of {k}", "{v} multiples of {k}, beginning with {k}"),
		code: "[i * {k} for i in range(1, {v} + 1)]", wrong: list("[i * {k} for i in range({v})]", "[i + {k} for i in range({v})]"),
		eval: on(func(e env, n int) any { return progression(e.k, n*e.k, e.k) })},
	{name: "copies", out: text, says: list("the letter {c} repeated {v} times", "{v} copies of the letter {c}"),
		code: `"{c}" * {v}`, wrong: list(`"{c}" + {v}`, `"{c}{c}" * {v}`),
		eval: on(func(e env, n int) any { return repeat(e.c, n) })},
}

// progression is the integers from, from+by, … up to last.
func progression(from, last, by int) []int {
	a := []int{}
	for i := from; by > 0 && i <= last || by < 0 && i >= last; i += by {
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
