package look

import (
	"slices"
	"strings"
)

// HeadingPart is a piece of a headline: words, or the name of a run.
type HeadingPart struct {
	Text string
	Name bool
}

// Heading takes a headline apart at the names in it: a line may end at the hyphen of a word, and not at that of a name.
func Heading(title string, names []string) (parts []HeadingPart) {
	add := func(text string, name bool) {
		if text != "" {
			parts = append(parts, HeadingPart{Visible(text), name})
		}
	}
	words, at := 0, 0
	for at < len(title) {
		i := slices.IndexFunc(names, func(name string) bool { return alone(title, at, name) })
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

// alone reports whether a word stands at a byte of a text, with nothing but spaces around it.
func alone(text string, at int, word string) bool {
	after := at + len(word)
	return word != "" && (at == 0 || text[at-1] == ' ') && strings.HasPrefix(text[at:], word) && (after == len(text) || text[after] == ' ')
}
