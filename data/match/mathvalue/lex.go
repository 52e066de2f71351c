package mathvalue

import (
	"strings"
	"unicode/utf8"
)

// lex splits a text into tokens: numbers, words, commands, and symbols of one character. The names of environments are words.
func lex(s string) (tokens []string, ok bool) {
	for i := 0; i < len(s); {
		from := i
		switch c := s[i]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			i++
			continue
		case digit(c) || c == '.' && i+1 < len(s) && digit(s[i+1]):
			i = numberEnd(s, i)
		case letter(c):
			for i < len(s) && letter(s[i]) {
				i++
			}
		case c == '\\':
			if i++; i < len(s) && s[i] == '\\' {
				i++
				break
			}
			for i < len(s) && letter(s[i]) {
				i++
			}
			if i == from+1 {
				return nil, false
			}
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			if !strings.ContainsRune("+-*/^!%()[]{},|=<>≤≥∪±⦃⦄π∞∈⌊⌋⌈⌉_&:°", r) {
				return nil, false
			}
			i += n
		}
		tokens = append(tokens, s[from:i])
	}
	return tokens, true
}

func numberEnd(s string, i int) int {
	for i < len(s) && digit(s[i]) {
		i++
	}
	if i+1 < len(s) && s[i] == '.' && digit(s[i+1]) {
		i++
		for i < len(s) && digit(s[i]) {
			i++
		}
	} else if i < len(s) && s[i] == '.' {
		i++ // 3. is 3
	}
	return exponentEnd(s, i)
}

// exponentEnd is the index after the exponent of 1e-5. An e without digits after it is Euler's number.
func exponentEnd(s string, i int) int {
	j := i
	if j >= len(s) || s[j] != 'e' && s[j] != 'E' {
		return i
	}
	if j++; j < len(s) && (s[j] == '-' || s[j] == '+') {
		j++
	}
	first := j
	for j < len(s) && digit(s[j]) {
		j++
	}
	if j == first {
		return i
	}
	return j
}
