package main

import (
	"slices"
	"strings"
)

// textOps compute with a string of lower-case letters, at least six of them.
var textOps = []op{
	{name: "upper", out: text, says: list("{v} in upper case", "{v} with all letters in upper case"),
		code: "{v}.upper()",
		eval: on(func(_ env, s string) any { return strings.ToUpper(s) })},
	{name: "backward", out: text, says: list("{v} reversed", "the letters of {v} from last to first"),
		code: "{v}[::-1]",
		eval: on(func(_ env, s string) any { return reversed(s) })},
	{name: "head", out: text, says: list("the first {k} letters of {v}", "the first {k} characters of {v}"), small: true,
		code: "{v}[:{k}]",
		eval: on(func(e env, s string) any { return s[:e.k] })},
	{name: "cut", out: text, says: list("{v} without the first {k} letters", "{v} without its first {k} characters"), small: true,
		code: "{v}[{k}:]",
		eval: on(func(e env, s string) any { return s[e.k:] })},
	{name: "again", out: text, says: list("{v} repeated {k} times", "{k} copies of {v} in a row"),
		code: "{v} * {k}",
		eval: on(func(e env, s string) any { return repeat(s, e.k) })},
	{name: "suffix", out: text, says: list("{v} followed by {w}", "{v} with {w} added at the end"),
		code: `{v} + "{w}"`,
		eval: on(func(e env, s string) any { return s + e.word })},
	{name: "replace", out: text, says: list("{v} with every {c} replaced by {d}", "{v} after changing each {c} to {d}"),
		code: `{v}.replace("{c}", "{d}")`,
		eval: on(func(e env, s string) any { return strings.ReplaceAll(s, e.c, e.d) })},
	{name: "size", out: integer, says: list("the length of {v}", "the number of letters in {v}"),
		code: "len({v})",
		eval: on(func(_ env, s string) any { return len(s) })},
	{name: "count-letter", out: integer, says: list("how often {c} occurs in {v}", "the number of times {c} is in {v}"),
		code: `{v}.count("{c}")`,
		eval: on(func(e env, s string) any { return strings.Count(s, e.c) })},
	{name: "palindrome", out: boolean, says: list("{v} is a palindrome", "{v} reads the same from both ends"),
		code: "{v} == {v}[::-1]",
		eval: on(func(_ env, s string) any { return s == reversed(s) })},
	{name: "starts", out: boolean, says: list("{v} starts with {c}", "the first letter of {v} is {c}"),
		code: `{v}[0] == "{c}"`,
		eval: on(func(e env, s string) any { return strings.HasPrefix(s, e.c) })},
}

// wordsOps compute with a list of lower-case words.
var wordsOps = []op{
	{name: "count-words", out: integer, says: list("the number of words in {v}", "how many words {v} has"),
		code: "len({v})",
		eval: on(func(_ env, w []string) any { return len(w) })},
	{name: "longest", out: text, says: list("the longest word in {v}", "the word in {v} with the most letters"),
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
	{name: "initials", out: text, says: list("the first letters of the words in {v}", "the first letter of each word in {v}, joined"),
		code: `"".join(x[0] for x in {v})`,
		eval: on(func(_ env, w []string) any {
			return strings.Join(each(w, func(s string) string { return s[:1] }), "")
		})},
	{name: "lengths", out: numbers, says: list("the length of each word in {v}", "the lengths of the words in {v}"),
		code: "[len(x) for x in {v}]",
		eval: on(func(_ env, w []string) any { return each(w, func(s string) int { return len(s) }) })},
	{name: "order", out: words, says: list("{v} in alphabetical order", "the words in {v} sorted"),
		code: "sorted({v})",
		eval: on(func(_ env, w []string) any { return slices.Sorted(slices.Values(w)) })},
	{name: "capitals", out: words, says: list("each word in {v} in upper case", "the words in {v} with all letters in upper case"),
		code: "[x.upper() for x in {v}]",
		eval: on(func(_ env, w []string) any { return each(w, strings.ToUpper) })},
	{name: "long-words", out: words, says: list("the words in {v} longer than 4 letters", "the words in {v} with more than 4 letters"),
		code: "[x for x in {v} if len(x) > 4]",
		eval: on(func(_ env, w []string) any { return keep(w, func(s string) bool { return len(s) > 4 }) })},
}

// ops are all operations, each with the shape that it reads.
var ops = func() (all []op) {
	for _, g := range []struct {
		in  shape
		ops []op
	}{{integer, integerOps}, {pair, pairOps}, {numbers, numbersOps}, {text, textOps}, {words, wordsOps}} {
		for _, o := range g.ops {
			o.in = g.in
			all = append(all, o)
		}
	}
	return all
}()
