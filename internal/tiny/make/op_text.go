package main

import (
	"slices"
	"strings"
)

// textOps compute with a string of at least six lower-case letters.
var textOps = []op{
	{name: "upper", says: list("{v} in upper case", "{v} with all letters in upper case"),
		code: "{v}.upper()",
		eval: on(func(_ env, s string) any { return strings.ToUpper(s) })},
	{name: "backward", says: list("{v} reversed", "the letters of {v} from last to first"),
		code: "{v}[::-1]",
		eval: on(func(_ env, s string) any { return reversed(s) })},
	{name: "size", says: list("the length of {v}", "the number of letters in {v}"),
		code: "len({v})",
		eval: on(func(_ env, s string) any { return len(s) })},
	{name: "head", says: list("the first {k} letters of {v}", "the first {k} characters of {v}"), small: true,
		code: "{v}[:{k}]",
		eval: on(func(e env, s string) any { return s[:e.k] })},
	{name: "cut", says: list("{v} without the first {k} letters", "{v} without its first {k} characters"), small: true,
		code: "{v}[{k}:]",
		eval: on(func(e env, s string) any { return s[e.k:] })},
}

// wordsOps compute with a list of lower-case words.
var wordsOps = []op{
	{name: "longest", says: list("the longest word in {v}", "the word in {v} with the most letters"),
		code: "max({v}, key=len)",
		eval: on(func(_ env, w []string) any {
			best := w[0]
			for _, x := range w {
				if len(x) > len(best) {
					best = x
				}
			}
			return best
		})},
	{name: "order", says: list("{v} in alphabetical order", "the words in {v} sorted"),
		code: "sorted({v})",
		eval: on(func(_ env, w []string) any { return slices.Sorted(slices.Values(w)) })},
	{name: "capitals", says: list("each word in {v} in upper case", "the words in {v} with all letters in upper case"),
		code: "[x.upper() for x in {v}]",
		eval: on(func(_ env, w []string) any { return each(w, strings.ToUpper) })},
	{name: "lengths", says: list("the length of each word in {v}", "the lengths of the words in {v}"),
		code: "[len(x) for x in {v}]",
		eval: on(func(_ env, w []string) any { return each(w, func(s string) int { return len(s) }) })},
}

// ops are all ops; the tables above leave out their input, which is set here.
var ops = func() (all []op) {
	for _, g := range []struct {
		in  shape
		ops []op
	}{{integer, integerOps}, {numbers, numbersOps}, {text, textOps}, {words, wordsOps}} {
		for _, o := range g.ops {
			o.in = g.in
			all = append(all, o)
		}
	}
	return all
}()
