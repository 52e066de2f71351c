package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// shape is the type of an input.
type shape string

const (
	integer shape = "integer" // int
	numbers shape = "numbers" // []int
	text    shape = "text"    // string: lower-case letters
	words   shape = "words"   // []string
)

// env holds the drawn values that distinguish the instances of a family.
type env struct {
	v, f   string // names of the variable and of the function
	k, m   int    // numbers of the op and of the output
	c      string // a letter that an input string may begin and end with
	label  string
	saying int // which wording of the op
	frame  int // which wording of the whole statement
}

// draw draws the values of an instance.
func draw(rng *rand.Rand, o op) env {
	e := env{
		v: pick(rng, inputs[o.in].names), f: pick(rng, functions), k: 2 + rng.IntN(8), m: 2 + rng.IntN(8), label: pick(rng, labels),
		c: alphabet[rng.IntN(len(alphabet)):][:1], saying: rng.IntN(len(o.says)), frame: rng.IntN(1 << 20),
	}
	if o.small {
		e.k = 2 + rng.IntN(2)
	}
	return e
}

// fill fills the placeholders of a pattern.
func (e env) fill(pattern string) string {
	return strings.NewReplacer(
		"{v}", e.v, "{f}", e.f, "{k}", fmt.Sprint(e.k), "{m}", fmt.Sprint(e.m), "{label}", e.label).Replace(pattern)
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

const alphabet = "abcdeilmnorst"

var (
	functions = strings.Fields(
		"solve compute answer result convert process run work task build make apply check find get total value handle change look")
	labels  = strings.Fields("result: total: answer: value: out: sum: got: here:")
	lexicon = strings.Fields("cat dog tree moon star rain snow blue red note line sand mint rose gold bear lion deer seed salt corn meal")
)

// input is how a program reads a value, and how values are drawn for tests.
type input struct {
	names []string
	says  string // "an integer {v}"
	read  string
	draw  func(rng *rand.Rand, e env) any
}

var inputs = map[shape]input{
	integer: {
		names: strings.Fields("n x k num m p q value size number"), says: "an integer {v}",
		read: "{v} = int(input())\n",
		draw: func(rng *rand.Rand, e env) any {
			if rng.IntN(4) == 0 { // so that divisions come out even
				return e.k * (1 + rng.IntN(12))
			}
			return 1 + rng.IntN(120)
		},
	},
	numbers: {
		names: strings.Fields("a b xs ys nums values data items numbers seq"), says: "a list of integers {v}",
		read: "{v} = list(map(int, input().split()))\n",
		draw: func(rng *rand.Rand, e env) any {
			a := make([]int, 4+rng.IntN(4))
			for i := range a {
				a[i] = rng.IntN(24) - 3
				if rng.IntN(4) == 0 {
					a[i] = e.k
				}
			}
			return a
		},
	},
	text: {
		names: strings.Fields("s t r text line word name phrase"), says: "a string {v}",
		read: "{v} = input()\n",
		draw: func(rng *rand.Rand, e env) any {
			s := pick(rng, lexicon) + pick(rng, lexicon)
			switch rng.IntN(4) {
			case 0:
				return e.c + s + e.c
			case 1: // a palindrome
				return s[:4] + reversed(s[:4])
			}
			return s + strings.Repeat(e.c, rng.IntN(2)) + pick(rng, []string{"s", "er", ""})
		},
	},
	words: {
		names: strings.Fields("w ws names items parts tokens terms group"), says: "a list of words {v}",
		read: "{v} = input().split()\n",
		draw: func(rng *rand.Rand, e env) any {
			w := make([]string, 3+rng.IntN(3))
			for i := range w {
				w[i] = pick(rng, lexicon)
				if rng.IntN(3) == 0 {
					w[i] += pick(rng, lexicon)
				}
			}
			return w
		},
	},
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// op is what a program computes, as a Python expression (code), in words, and in Go (eval).
type op struct {
	name  string
	in    shape
	says  []string
	code  string
	eval  func(e env, in any) any
	small bool // k is 2 or 3
}

// on converts a function on concrete types to an eval.
func on[A any](f func(e env, a A) any) func(env, any) any {
	return func(e env, in any) any { return f(e, in.(A)) }
}

func list(s ...string) []string { return s }
