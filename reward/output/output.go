// Package output says whether what a program printed is what it should have printed, by the rules of LiveCodeBench.
package output

import (
	"bytes"
	"math"
	"strings"
	"unicode"
)

// Same compares what a program printed with what it should have printed, as LiveCodeBench
// does: the whole and each line are stripped of what Python calls white space, the number of lines
// must match, and each pair of lines must be equal, or consist of decimal numbers that are equal
// exactly. The numbers are never expanded, so 1e999999999 costs nothing.
func Same(got []byte, want string) bool {
	return compareLines(got, want, sameNumbers)
}

// compareLines compares line by line; same decides on stripped lines that are not equal as text.
func compareLines(got []byte, want string, same func(got, want string) bool) bool {
	g, w := stripBytes(got), strip(want)
	if bytes.Count(g, newline) != strings.Count(w, "\n") {
		return false
	}
	for more := true; more; {
		var gotLine []byte
		var wantLine string
		gotLine, g, more = bytes.Cut(g, newline)
		wantLine, w, _ = strings.Cut(w, "\n")
		gotLine, wantLine = stripBytes(gotLine), strip(wantLine)
		if string(gotLine) != wantLine && !same(string(gotLine), wantLine) {
			return false
		}
	}
	return true
}

var newline = []byte{'\n'}

// sameNumbers compares two lines as lists of decimal numbers.
func sameNumbers(got, want string) bool {
	return compareTokens(got, want, func(g, w string) bool {
		a, ok := parseDecimal(g)
		b, ok2 := parseDecimal(w)
		return ok && ok2 && a.equal(b)
	})
}

// Close is Same for numbers that may differ by the tolerance, absolute or relative to the
// number wanted, whichever allows more. Lines may mix numbers and words; words must be equal.
func Close(got []byte, want string, tolerance float64) bool {
	return compareLines(got, want, func(g, w string) bool {
		return compareTokens(g, w, func(g, w string) bool {
			if g == w {
				return true
			}
			a, ok := parseDecimal(g)
			b, ok2 := parseDecimal(w)
			return ok && ok2 && (a.equal(b) || Within(a.float(), b.float(), tolerance))
		})
	})
}

// Within says whether two finite numbers are within the tolerance.
func Within(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want)) && !math.IsInf(want, 0)
}

// compareTokens compares two lines word by word.
func compareTokens(got, want string, same func(got, want string) bool) bool {
	for {
		var g, w string
		g, got = token(got)
		w, want = token(want)
		if g == "" || w == "" {
			return g == w
		}
		if !same(g, w) {
			return false
		}
	}
}

// token cuts the first word off a line; "" is the end.
func token(line string) (word, rest string) {
	line = strings.TrimLeftFunc(line, isSpace)
	if end := strings.IndexFunc(line, isSpace); end >= 0 {
		return line[:end], line[end:]
	}
	return line, ""
}

func strip(s string) string      { return strings.TrimFunc(s, isSpace) }
func stripBytes(s []byte) []byte { return bytes.TrimFunc(s, isSpace) }

// isSpace is Python's str.isspace: beside Unicode's white space it holds the four separators U+001C
// to U+001F.
func isSpace(r rune) bool {
	return '\x1c' <= r && r <= '\x1f' || unicode.IsSpace(r)
}
