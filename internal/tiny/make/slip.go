package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tokens matches what a slip can change: words, numbers, strings, operators, and other single characters.
var tokens = regexp.MustCompile("[A-Za-z_]+|[0-9]+|\"[^\"\n]*\"|\\*\\*|//|==|!=|<=|>=|[^ \n]")

// confused are groups of tokens that authors confuse with each other.
var confused = [][]string{
	strings.Fields("max min sum len sorted abs"), strings.Fields("print return"), strings.Fields("int str list"),
	strings.Fields("upper title lower"), strings.Fields("count find index"), strings.Fields("split strip"), strings.Fields("in not"),
	strings.Fields("all any"), strings.Fields("for while if"), strings.Fields("+ - * // / % **"), strings.Fields("< <= > >= == !="),
}

// slip changes one random token of a program.
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

// slipped returns what replaces a token: a token that it is confused with, a number that is off by one, a string without
// its quotes or with another word, another name in the program, or nothing.
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
	return "" // a missing bracket, comma or colon
}

func isName(token string) bool { return token[0] >= 'a' && token[0] <= 'z' }
