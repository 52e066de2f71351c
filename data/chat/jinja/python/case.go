// Package python does to texts and numbers what Python does to them, as far as templates ask for it. It knows no templates.
package python

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"
)

// Upper and Lower are Python's str.upper and str.lower, in which a letter may become several: ß is SS.
func Upper(s string) string { return cases.Upper(language.Und).String(s) }
func Lower(s string) string { return cases.Lower(language.Und).String(s) }

// Capitalize is Python's str.capitalize: what begins the text as in a title, the rest lower.
func Capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return cases.Title(language.Und).String(s[:n]) + strings.TrimPrefix(Lower(s), Lower(s[:n]))
}

// Title is Python's str.title: a letter that follows none is as in a title, the others are lower.
func Title(s string) string { return eachWord(s, unicode.IsLetter, Capitalize) }

// TitleWords has a capital begin each word, which begins the text or stands behind a space, a dash or a bracket: not as str.title.
func TitleWords(s string) string {
	inWord := func(r rune) bool { return !syntax.IsSpace(r) && !strings.ContainsRune("-({[<", r) }
	return eachWord(s, inWord, func(word string) string {
		_, n := utf8.DecodeRuneInString(word)
		return Upper(word[:n]) + Lower(word[n:])
	})
}

// eachWord changes the words of a text, which are as long as runes are in one, and leaves what is between them.
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
