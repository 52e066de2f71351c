package display

import (
	"slices"
	"strings"
)

// HeadingPart is a part of a headline: words, or the name of a run.
type HeadingPart struct {
	Text string
	Name bool
}

// Heading splits a headline at the names in it. Words may be hyphenated at line ends, names may not.
func Heading(title string, names []string) (parts []HeadingPart) {
	add := func(text string, name bool) {
		if text != "" {
			parts = append(parts, HeadingPart{Visible(text), name})
		}
	}
	words, at := 0, 0
	for at < len(title) {
		i := slices.IndexFunc(names, func(name string) bool { return standsAlone(title, at, name) })
		if i < 0 {
			at++
			continue
		}
		add(title[words:at], false)
		add(names[i], true)
		at += len(names[i])
		words = at
	}
	add(title[words:], false)
	return parts
}

// standsAlone reports whether a word at an offset has spaces, or the ends of the text, around it.
func standsAlone(text string, at int, word string) bool {
	after := at + len(word)
	return word != "" && (at == 0 || text[at-1] == ' ') && strings.HasPrefix(text[at:], word) && (after == len(text) || text[after] == ' ')
}
