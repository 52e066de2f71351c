package main

import (
	"fmt"
	"strings"
)

// output is how a program gives a result back. {E} is the expression, or what it is called in words.
type output struct {
	name string
	of   []shape
	call bool // the program is a function
	says string
	code string
	// show is what a program prints, or a function returns.
	show func(e env, v any) any
}

var outputs = []output{
	{name: "print", of: []shape{integer, text}, says: "print {E}", code: "print({E})\n",
		show: func(_ env, v any) any { return fmt.Sprint(v) }},
	{name: "label", of: []shape{integer}, says: "print {label} followed by {E}", code: "print(\"{label}\", {E})\n",
		show: func(e env, v any) any { return fmt.Sprint(e.label, " ", v) }},
	{name: "more", of: []shape{integer}, says: "print {E}, plus {m}", code: "print({E} + {m})\n",
		show: func(e env, v any) any { return fmt.Sprint(v.(int) + e.m) }},
	{name: "angles", of: []shape{text}, says: "print {E} between < and >", code: "print(\"<\" + {E} + \">\")\n",
		show: func(_ env, v any) any { return fmt.Sprint("<", v, ">") }},
	{name: "spaces", of: []shape{numbers, words}, says: "print {E}, separated by spaces", code: "print(*{E})\n",
		show: func(_ env, v any) any { return join(v, " ") }},
	{name: "commas", of: []shape{numbers, words}, says: "print {E}, separated by commas", code: "print(*{E}, sep=\",\")\n",
		show: func(_ env, v any) any { return join(v, ",") }},
	{name: "lines", of: []shape{numbers, words}, says: "print {E}, one per line", code: "for x in {E}:\n    print(x)\n",
		show: func(_ env, v any) any { return join(v, "\n") }},
	{name: "answer", of: []shape{boolean}, says: "print {yes} if {E}, otherwise {no}", code: "print(\"{yes}\" if {E} else \"{no}\")\n",
		show: func(e env, v any) any {
			if v.(bool) {
				return e.yes
			}
			return e.no
		}},
	{name: "return", of: []shape{integer, text, numbers, words}, call: true, says: "returns {E}", code: "return {E}\n",
		show: func(_ env, v any) any { return v }},
	{name: "return-more", of: []shape{integer}, call: true, says: "returns {E}, plus {m}", code: "return {E} + {m}\n",
		show: func(e env, v any) any { return v.(int) + e.m }},
	{name: "return-twice", of: []shape{text}, call: true, says: "returns {E}, twice in a row", code: "return ({E}) * 2\n",
		show: func(_ env, v any) any { return v.(string) + v.(string) }},
	{name: "tell", of: []shape{boolean}, call: true, says: "returns True if {E}, otherwise False", code: "return {E}\n",
		show: func(_ env, v any) any { return v }},
	{name: "word", of: []shape{boolean}, call: true, says: "returns the string {yes} if {E}, otherwise {no}",
		code: "return \"{yes}\" if {E} else \"{no}\"\n",
		show: func(e env, v any) any {
			if v.(bool) {
				return e.yes
			}
			return e.no
		}},
}

func join(list any, sep string) string {
	var parts []string
	switch a := list.(type) {
	case []int:
		parts = each(a, func(x int) string { return fmt.Sprint(x) })
	case []string:
		parts = a
	}
	return strings.Join(parts, sep)
}
