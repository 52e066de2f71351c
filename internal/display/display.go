// Package display is the common look of the program's pages: their style, the colors of verdicts, and how untrusted text is shown. It
// does not know the content of the pages.
package display

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is the style of every page. Templates include it by its file name.
//
//go:embed page.css
var Style string

// ReaderScript is the script that keeps what the reader was looking at when a page is drawn again. FollowScript, behind it, redraws a page
// when its server says so.
var (
	//go:embed reader.js
	ReaderScript string
	//go:embed follow.js
	FollowScript string
)

// Template starts a page with the style.
func Template(name string) *template.Template {
	return template.Must(template.New(name).Parse(`{{define "page.css"}}` + Style + `{{end}}`))
}

// ScriptHash is a Content-Security-Policy hash, with which the browser runs only the page's own script, whatever a completion contains.
func ScriptHash(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Verdicts are the verdicts in the order of a page. Others come last, in gray.
var Verdicts = []struct{ Name, Color string }{
	{"AC", "c1"}, {"WA", "c2"}, {"RTE", "c4"}, {"CE", "c6"}, {"TLE", "c5"}, {"MLE", "c3"}, {"OLE", "c8"}, {"INFRA", "c9"},
}

// VerdictColor is the color of a verdict.
func VerdictColor(verdict string) string {
	for _, v := range Verdicts {
		if v.Name == verdict {
			return v.Color
		}
	}
	return "c7"
}

// Truncate shortens a text at a character boundary, and says by how much.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "\n… and " + bytes(len(text)-most) + " more"
}

// Visible replaces invisible characters, and those that reorder the text around them, by visible symbols. The result is
// valid in HTML and XML.
func Visible(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	var b strings.Builder
	before := rune(0)
	for i, r := range text {
		switch {
		case plain(r) || joins(before, r, text[i:]):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune('␀' + r) // the control pictures are in the same order
		case r == 0xa0 || r >= 0x2000 && r <= 0x200a:
			b.WriteRune(' ')
		default:
			fmt.Fprintf(&b, "⟨%U⟩", r)
		}
		before = r
	}
	return b.String()
}

// Line is Visible for text on one line, such as a path: it also replaces line breaks and tabs.
func Line(text string) string {
	return strings.NewReplacer("\n", "␊", "\t", "␉").Replace(Visible(text))
}

func plain(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// joins reports whether r, the first character of rest, is a joiner in a legitimate place: in an emoji sequence, or between letters of
// a script that uses joiners.
func joins(before, r rune, rest string) bool {
	if r != '\u200c' && r != '\u200d' {
		return false
	}
	behind, _ := utf8.DecodeRuneInString(rest[utf8.RuneLen(r):])
	wants := func(r rune) bool {
		return r >= '\u0600' && r != utf8.RuneError && unicode.In(r, unicode.L, unicode.M, unicode.So, unicode.Sk)
	}
	return wants(before) && wants(behind)
}

func bytes(n int) string {
	if n == 1 {
		return "1 byte"
	}
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text + " bytes"
}
