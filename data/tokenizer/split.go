package tokenizer

import (
	"math"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// A splitter cuts a text into pieces, which are merged independently, and passes each to emit. Concatenated,
// the pieces are the text.
type splitter func(text string, emit func(piece string))

// The patterns of the supported models. They are recognised by their text and matched by the scanners
// below; any other pattern goes to the regexp engine, which is many times slower.
const (
	gpt2Pattern   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	qwenPattern   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// newSplitter returns the splitter of a pattern: its matches and the text between them are the pieces.
func newSplitter(pattern string) (splitter, error) {
	fillClasses()
	switch pattern {
	case gpt2Pattern:
		return scanner(gpt2End), nil
	case qwenPattern:
		return scanner(func(s string, i int) int { return modernEnd(s, i, 1) }), nil
	case llama3Pattern:
		return scanner(func(s string, i int) int { return modernEnd(s, i, 3) }), nil
	}
	return regexpSplitter(pattern)
}

// scanner makes a splitter from a function that finds the end of the piece that starts at i.
func scanner(end func(s string, i int) int) splitter {
	return func(text string, emit func(string)) {
		for i := 0; i < len(text); {
			j := end(text, i)
			emit(text[i:j])
			i = j
		}
	}
}

// chain splits every piece of the first splitter by the second.
func chain(first, second splitter) splitter {
	return func(text string, emit func(string)) {
		first(text, func(piece string) { second(piece, emit) })
	}
}

func regexpSplitter(pattern string) (splitter, error) {
	if err := tryPattern(pattern); err != nil {
		return nil, err
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, err
	}
	return func(text string, emit func(string)) {
		cut := func(piece []rune) {
			if len(piece) > 0 {
				emit(string(piece))
			}
		}
		runes, done := []rune(text), 0
		m, _ := re.FindRunesMatch(runes) // it fails only at a time limit, which is not set
		for m != nil {
			cut(runes[done:m.Index])
			cut(runes[m.Index : m.Index+m.Length])
			done = m.Index + m.Length
			m, _ = re.FindNextMatch(m)
		}
		cut(runes[done:])
	}, nil
}

// Character classes of the patterns.
const (
	other   = iota // [^\s\p{L}\p{N}]
	letter         // \p{L}
	number         // \p{N}
	space          // \s without [\r\n]
	newline        // [\r\n]
)

// classes is the class of every character. Most of the table costs no memory: pages that hold only `other`
// are never written.
var classes [unicode.MaxRune + 1]uint8

var fillClasses = sync.OnceFunc(func() {
	fill := func(table *unicode.RangeTable, class uint8) {
		for _, r := range table.R16 {
			for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
				classes[c] = class
			}
		}
		for _, r := range table.R32 {
			for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
				classes[c] = class
			}
		}
	}
	fill(unicode.L, letter)
	fill(unicode.N, number)
	fill(unicode.White_Space, space)
	classes['\r'], classes['\n'] = newline, newline
})

// classAt returns the class and the length of the character at s[i]; length 0 at the end of s.
func classAt(s string, i int) (class uint8, size int) {
	if i >= len(s) {
		return other, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return classes[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classes[r], n
}

// run returns the end of the run of characters of one class that starts at i, at most limit of them.
func run(s string, i int, class uint8, limit int) int {
	for ; limit > 0; limit-- {
		c, n := classAt(s, i)
		if n == 0 || c != class {
			break
		}
		i += n
	}
	return i
}

// gpt2End finds the end of the match of gpt2Pattern at i.
func gpt2End(s string, i int) int {
	if j := contraction(s, i, false); j > 0 {
		return j
	}
	start := i
	if s[i] == ' ' {
		start++
	}
	if c, n := classAt(s, start); n > 0 && c < space {
		return run(s, start, c, math.MaxInt)
	}
	return spaceEnd(s, i, false)
}

// modernEnd finds the end of the match of qwenPattern (digits 1) or llama3Pattern (digits 3) at i.
func modernEnd(s string, i, digits int) int {
	if j := contraction(s, i, true); j > 0 {
		return j
	}
	c, n := classAt(s, i)
	switch c {
	case letter:
		return run(s, i+n, letter, math.MaxInt)
	case number:
		return run(s, i+n, number, digits-1)
	case newline:
		return spaceEnd(s, i, true)
	}
	// A space or a symbol joins the word after it; a plain space also joins the symbols after it.
	next, _ := classAt(s, i+n)
	if i+n < len(s) && next == letter {
		return run(s, i+n, letter, math.MaxInt)
	}
	if c == space && !(s[i] == ' ' && i+n < len(s) && next == other) {
		return spaceEnd(s, i, true)
	}
	j := run(s, i+n, other, math.MaxInt)
	return run(s, j, newline, math.MaxInt)
}

// spaceEnd finds the end of a piece of white space that starts at i. If newlines is set, as for patterns with
// \s*[\r\n]+, it is after the last newline of the run, if there is one. Else it is before the last character
// of the run, which may join the next word.
func spaceEnd(s string, i int, newlines bool) int {
	last, afterNewline, j := i, i, i
	for j < len(s) {
		c, n := classAt(s, j)
		if c < space {
			break
		}
		last, j = j, j+n
		if c == newline {
			afterNewline = j
		}
	}
	switch {
	case newlines && afterNewline > i:
		return afterNewline
	case j == len(s) || last == i:
		return j
	}
	return last
}

// contraction returns the end of 's, 't, 're, 've, 'm, 'll or 'd at i, or 0. With fold it ignores case;
// by Unicode case folding, ſ equals s.
func contraction(s string, i int, fold bool) int {
	if s[i] != '\'' || i+1 == len(s) {
		return 0
	}
	for _, end := range [...]string{"s", "t", "m", "d", "re", "ve", "ll"} {
		if j := i + 1 + len(end); j <= len(s) && (s[i+1:j] == end || fold && asciiFold(s[i+1:j], end)) {
			return j
		}
	}
	if fold && strings.HasPrefix(s[i+1:], "ſ") {
		return i + 1 + len("ſ")
	}
	return 0
}

// asciiFold reports whether s equals the lower-case text lower, ignoring the case of ASCII letters.
func asciiFold(s, lower string) bool {
	for i := range len(s) {
		if s[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}
