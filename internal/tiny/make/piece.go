package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// shape is the type of a value that pieces pass on.
type shape string

const (
	integer shape = "integer" // int
	pair    shape = "pair"    // [2]int
	numbers shape = "numbers" // []int
	text    shape = "text"    // string: lower-case letters
	words   shape = "words"   // []string
	boolean shape = "boolean" // bool
)

// env is what tells one instance of a family from another.
type env struct {
	v, u    string // names of the variables; u is the second of a pair
	f       string // of the function
	k, l, m int    // k < l; m belongs to the output
	c, d    string // letters
	word    string
	label   string
	yes, no string
	saying  int // which of the wordings of the op
	frame   int // which of those of the whole
}

// draw makes an instance for an op.
func draw(rng *rand.Rand, o op) env {
	e := env{
		f: pick(rng, functions), k: 2 + rng.IntN(8), m: 2 + rng.IntN(8), label: pick(rng, labels), word: pick(rng, lexicon),
		saying: rng.IntN(len(o.says)), frame: rng.IntN(1 << 20),
	}
	e.l = e.k + 1 + rng.IntN(6)
	if o.small {
		e.k = 2 + rng.IntN(2)
	}
	names := inputs[o.in].names
	e.v, e.u, _ = strings.Cut(pick(rng, names), ",")
	letters := rng.Perm(len(alphabet))
	e.c, e.d = alphabet[letters[0]:letters[0]+1], alphabet[letters[1]:letters[1]+1]
	e.yes, e.no, _ = strings.Cut(pick(rng, answers), "/")
	return e
}

// fill puts an instance into a pattern.
func (e env) fill(pattern string) string {
	return strings.NewReplacer("{v}", e.v, "{u}", e.u, "{f}", e.f, "{k}", fmt.Sprint(e.k), "{l}", fmt.Sprint(e.l), "{m}", fmt.Sprint(e.m),
		"{c}", e.c, "{d}", e.d, "{w}", e.word, "{label}", e.label, "{yes}", e.yes, "{no}", e.no).Replace(pattern)
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

const alphabet = "abcdeilmnorst"

var (
	functions = strings.Fields(
		"solve compute answer result convert process run work task build make apply check find get total value handle change look")
	labels  = strings.Fields("result: total: answer: value: out: sum: got: here:")
	answers = strings.Fields("yes/no YES/NO true/false ok/bad Y/N good/wrong")
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
			if rng.IntN(3) == 0 { // where comparisons turn and divisions come out even
				return pick(rng, []int{e.k, e.l, e.k * 2, e.k * e.l, e.k + 1, 1})
			}
			return 1 + rng.IntN(60)
		},
	},
	pair: {
		names: strings.Fields("a,b x,y m,n p,q u,v g,h first,second left,right"), says: "two integers {v} and {u}",
		read: "{v}, {u} = map(int, input().split())\n",
		draw: func(rng *rand.Rand, e env) any {
			x, y := 1+rng.IntN(30), 1+rng.IntN(30)
			switch rng.IntN(5) {
			case 0:
				return [2]int{x, x}
			case 1:
				return [2]int{y * (1 + rng.IntN(4)), y}
			}
			return [2]int{x, y}
		},
	},
	numbers: {
		names: strings.Fields("a b xs ys nums values data items numbers seq"), says: "a list of integers {v}",
		read: "{v} = list(map(int, input().split()))\n",
		draw: func(rng *rand.Rand, e env) any {
			a := make([]int, 5+rng.IntN(6))
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
			w := make([]string, 4+rng.IntN(4))
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

// op is what is computed. Its code is an expression, after lines that prepare it where there are any.
type op struct {
	name    string
	in, out shape
	says    []string
	code    string
	eval    func(e env, in any) any
	small   bool // k is 2 or 3
}

// on makes an eval of a function over the types that an op has.
func on[A any](f func(e env, a A) any) func(env, any) any {
	return func(e env, in any) any { return f(e, in.(A)) }
}

func list(s ...string) []string { return s }
