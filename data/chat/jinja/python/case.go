// Package python has those of Python's operations on strings and numbers that templates use. It knows nothing of templates.
package python

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"
)

// Upper and Lower are Python's str.upper and str.lower. A letter may become several: ß becomes SS.
func Upper(s string) string { return cases.Upper(language.Und).String(s) }
func Lower(s string) string { return cases.Lower(language.Und).String(s) }

// Capitalize is Python's str.capitalize: the first letter in title case, the others in lower case.
func Capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return cases.Title(language.Und).String(s[:n]) + strings.TrimPrefix(Lower(s), Lower(s[:n]))
}

// Title is Python's str.title: a letter after a non-letter in title case, the others in lower case.
func Title(s string) string { return eachWord(s, unicode.IsLetter, Capitalize) }

// TitleWords is Jinja's filter title, unlike str.title: a word begins at the start of the text, or after a space, a dash or a bracket.
func TitleWords(s string) string {
	inWord := func(r rune) bool { return !syntax.IsSpace(r) && !strings.ContainsRune("-({[<", r) }
	return eachWord(s, inWord, func(word string) string {
		_, n := utf8.DecodeRuneInString(word)
		return Upper(word[:n]) + Lower(word[n:])
	})
}

// eachWord applies change to the longest runs of runes for which in is true, and copies the rest.
func eachWord(s string, in func(rune) bool, change func(string) string) string {
	var out strings.Builder
	for s != "" {
		n := strings.IndexFunc(s, in)
		if n < 0 {
			n = len(s)
		}
		out.WriteString(s[:n])
		s = s[n:]
		if n = strings.IndexFunc(s, func(r rune) bool { return !in(r) }); n < 0 {
			n = len(s)
		}
		if n > 0 {
			out.WriteString(change(s[:n]))
		}
		s = s[n:]
	}
	return out.String()
}
