// Package mathvalue says whether two answers to a mathematical question have the same value, however they are written:
// 0.5, 1/2, \frac12 and 50\% are one number, {1, 2} and {2, 1} one set, 2(x+1) and 2x+2 one function.
//
// An answer is read as an expression, as a collection of them in braces or brackets, or as words. Rational numbers are
// compared exactly, so 0.333 is not a third; what has roots, functions or constants in it is compared as a number of double
// precision, and what has variables at several fixed places. A text that allows several readings (1,234 is a number, or
// two) has the value of each.
package mathvalue

import (
	"strings"
	"unicode/utf8"
)

// longest is the length in bytes up to which an answer is read as mathematics; longer ones are compared as text.
const longest = 2000

// Equal reports whether two answers have the same value.
func Equal(got, want string) bool {
	if max(len(got), len(want)) > 10*longest {
		return words(got) == words(want)
	}
	a, b := clean(got), clean(want)
	if a == "" || b == "" {
		return a == b
	}
	if words(a) == words(b) {
		return true
	}
	a, b, both, alike := compareTimes(a, b)
	if both {
		return alike
	}
	a, b = list(unlabelled(a)), list(unlabelled(b))
	if len(a) > longest || len(b) > longest || prose(a) || prose(b) {
		return false
	}
	for _, x := range readings(a, b) {
		for _, y := range readings(b, a) {
			if same(x, y) {
				return true
			}
		}
	}
	return false
}

// words normalises a text for comparison as prose: case, spacing, and punctuation at its ends.
func words(s string) string {
	s = strings.TrimLeft(strings.Join(strings.Fields(strings.ToLower(s)), " "), ";:!? ")
	for len(s) > 1 && s[0] == '.' && !digit(s[1]) { // .5 is not 5
		s = s[1:]
	}
	bare := strings.TrimRight(s, ".;:!? ")
	behind := strings.TrimLeft(s[len(bare):], " ")
	inWord := func(c byte) bool { return letter(c) || c >= utf8.RuneSelf }
	if n := len(bare); n > 0 && !(n > 1 && inWord(bare[n-1]) && inWord(bare[n-2])) { // 5! is not 5
		bare += behind[:len(behind)-len(strings.TrimLeft(behind, "!"))]
	}
	return bare
}

// prose reports whether a text contains words that are not mathematics.
func prose(s string) bool {
	run := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\': // skip the name of a command
			for i+1 < len(s) && letter(s[i+1]) {
				i++
			}
			run = 0
		case letter(c):
			run++
			if run >= 3 && !known(wordAround(s, i)) {
				return true
			}
		default:
			run = 0
		}
	}
	return strings.EqualFold(s, "no") || strings.EqualFold(s, "on") // other pairs of letters, as xy and ab, are products
}

func wordAround(s string, i int) string {
	from, to := i, i
	for from > 0 && letter(s[from-1]) {
		from--
	}
	for to < len(s) && letter(s[to]) {
		to++
	}
	return s[from:to]
}

func known(word string) bool {
	if _, ok := functions[word]; ok {
		return true
	}
	switch word {
	case "sqrt", "inf", "infinity", "log", "oo", "matrix", "pmatrix", "bmatrix", "vmatrix", "Bmatrix":
		return true
	}
	return false
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }
