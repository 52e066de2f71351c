package main

import "fmt"

// integerOps compute with one integer, which is positive.
var integerOps = []op{
	{name: "plus", says: list("{v} plus {k}", "the sum of {v} and {k}"),
		code: "{v} + {k}",
		eval: on(func(e env, n int) any { return n + e.k })},
	{name: "times", says: list("{v} times {k}", "the product of {v} and {k}"),
		code: "{v} * {k}",
		eval: on(func(e env, n int) any { return n * e.k })},
	{name: "quotient", says: list("{v} divided by {k}, rounded down", "how many times {k} goes into {v}"),
		code: "{v} // {k}",
		eval: on(func(e env, n int) any { return n / e.k })},
	{name: "remainder", says: list("the remainder of {v} divided by {k}", "{v} modulo {k}"),
		code: "{v} % {k}",
		eval: on(func(e env, n int) any { return n % e.k })},
	{name: "digits", says: list("the number of digits of {v}", "how many digits {v} has"),
		code: "len(str({v}))",
		eval: on(func(_ env, n int) any { return len(fmt.Sprint(n)) })},
	{name: "digit-sum", says: list("the sum of the digits of {v}", "the digit sum of {v}"),
		code: "sum(map(int, str({v})))",
		eval: on(func(_ env, n int) any {
			sum := 0
			for ; n > 0; n /= 10 {
				sum += n % 10
			}
			return sum
		})},
}
