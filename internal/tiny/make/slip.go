package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tokens are what a slip can fall on: words, numbers, strings, operators, and each other mark.
var tokens = regexp.MustCompile("[A-Za-z_]+|[0-9]+|\"[^\"\n]*\"|\\*\\*|//|==|!=|<=|>=|[^ \n]")

// confused are tokens that are written in place of each other.
var confused = [][]string{
	strings.Fields("max min sum len sorted abs"), strings.Fields("print return"), strings.Fields("int str list"),
	strings.Fields("upper title lower"), strings.Fields("count find index"), strings.Fields("split strip"), strings.Fields("in not"),
	strings.Fields("all any"), strings.Fields("for while if"), strings.Fields("+ - * // / % **"), strings.Fields("< <= > >= == !="),
}

// slip is a program after one slip, which falls on any of its tokens alike.
func slip(code string, rng *rand.Rand) string {
	at := tokens.FindAllStringIndex(code, -1)
	if len(at) == 0 {
		return code
	}
	on := pick(rng, at)
	var names []string
	for _, a := range at {
		if t := code[a[0]:a[1]]; isName(t) && t != code[on[0]:on[1]] {
			names = append(names, t)
		}
	}
	return code[:on[0]] + slipped(code[on[0]:on[1]], names, rng) + code[on[1]:]
}

// slipped is what is written in place of a token: one that it is confused with, a number that is one off, a string
// without its quotes or another word, another name of the program, or nothing.
func slipped(token string, names []string, rng *rand.Rand) string {
	for _, group := range confused {
		if at := slices.Index(group, token); at >= 0 {
			return group[(at+1+rng.IntN(len(group)-1))%len(group)]
		}
	}
	switch n, err := strconv.Atoi(token); {
	case err == nil:
		return fmt.Sprint(max(0, n+1-2*rng.IntN(2)))
	case token[0] == '"' && len(token) > 1:
		if rng.IntN(2) == 0 {
			return token[1 : len(token)-1]
		}
		return `"` + pick(rng, lexicon) + `"`
	case isName(token) && len(names) > 0:
		return pick(rng, names)
	}
	return "" // a bracket, a comma or a colon is left out
}

func isName(token string) bool { return token[0] >= 'a' && token[0] <= 'z' }
