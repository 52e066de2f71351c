package main

import (
	"fmt"
	"strings"
)

// output is how a program prints or returns a result of any type. {E} is the expression of the op, in code or in words.
type output struct {
	name string
	call bool // the program is a function
	says string
	code string
	// show is what a program prints or returns, given its input in and the result v.
	show func(e env, in, v any) any
}

var outputs = []output{
	{name: "print", says: "print {E}", code: "print({E})\n",
		show: func(_ env, _, v any) any { return printed(v) }},
	{name: "label-before", says: "print {label} before {E}", code: "print(\"{label}\", {E})\n",
		show: func(e env, _, v any) any { return printed(e.label, v) }},
	{name: "label-after", says: "print {label} after {E}", code: "print({E}, \"{label}\")\n",
		show: func(e env, _, v any) any { return printed(v, e.label) }},
	{name: "number-before", says: "print {m} before {E}", code: "print({m}, {E})\n",
		show: func(e env, _, v any) any { return printed(e.m, v) }},
	{name: "number-after", says: "print {m} after {E}", code: "print({E}, {m})\n",
		show: func(e env, _, v any) any { return printed(v, e.m) }},
	{name: "input-before", says: "print {v} before {E}", code: "print({v}, {E})\n",
		show: func(_ env, in, v any) any { return printed(in, v) }},
	{name: "input-after", says: "print {v} after {E}", code: "print({E}, {v})\n",
		show: func(_ env, in, v any) any { return printed(v, in) }},
	{name: "return", call: true, says: "returns {E}", code: "return {E}\n",
		show: func(_ env, _, v any) any { return v }},
	{name: "return-number-before", call: true, says: "returns a list with {m} before {E}", code: "return [{m}, {E}]\n",
		show: func(e env, _, v any) any { return []any{e.m, v} }},
	{name: "return-number-after", call: true, says: "returns a list with {m} after {E}", code: "return [{E}, {m}]\n",
		show: func(e env, _, v any) any { return []any{v, e.m} }},
	{name: "return-input-before", call: true, says: "returns a list with {v} before {E}", code: "return [{v}, {E}]\n",
		show: func(_ env, in, v any) any { return []any{in, v} }},
	{name: "return-input-after", call: true, says: "returns a list with {v} after {E}", code: "return [{E}, {v}]\n",
		show: func(_ env, in, v any) any { return []any{v, in} }},
	{name: "return-twice", call: true, says: "returns a list with {E} twice", code: "return [{E}] * 2\n",
		show: func(_ env, _, v any) any { return []any{v, v} }},
}

// printed is what Python's print writes for values.
func printed(values ...any) string {
	return strings.Join(each(values, func(v any) string {
		switch v := v.(type) {
		case []int:
			return "[" + join(v, ", ") + "]"
		case []string:
			return "[" + join(each(v, func(s string) string { return "'" + s + "'" }), ", ") + "]"
		}
		return fmt.Sprint(v)
	}), " ")
}

func join[T any](list []T, sep string) string {
	return strings.Join(each(list, func(x T) string { return fmt.Sprint(x) }), sep)
}
