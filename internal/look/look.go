// Package look is how the pages of this program look: their style, the colors of verdicts, and how a text is shown that somebody else
// wrote. It does not know what is on them.
package look

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

// Style is that of every page. Templates have it by the name of its file.
//
//go:embed page.css
var Style string

// Template begins a page that has the style.
func Template(name string) *template.Template {
	return template.Must(template.New(name).Parse(`{{define "page.css"}}` + Style + `{{end}}`))
}

// Hash lets the browser run the page's own script and no other, whatever a completion says.
func Hash(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Verdicts are the verdicts in the order of a page. What is not named here comes last, in gray.
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

// Cut shortens a text at a rune's edge and says by how much.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "\n… and " + bytes(len(text)-most) + " more"
}

// Visible replaces characters that cannot be seen, and those that reorder the text around them, by signs
// that can. What is left is legal in HTML and in XML.
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
			b.WriteRune('␀' + r) // the control pictures lie in the same order
		case r == 0xa0 || r >= 0x2000 && r <= 0x200a:
			b.WriteRune(' ')
		default:
			fmt.Fprintf(&b, "⟨%U⟩", r)
		}
		before = r
	}
	return b.String()
}

// Line is Visible for what is to be in one line, such as a path: new lines and tabs have signs, too.
func Line(text string) string {
	return strings.NewReplacer("\n", "␊", "\t", "␉").Replace(Visible(text))
}

func plain(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// joins tells whether r, with which rest begins, is a joiner where writing wants one: between two people of a family, or two letters of a
// script that joins them or not.
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
