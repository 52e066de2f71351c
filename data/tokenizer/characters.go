package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// characters are what the pieces of a vocabulary are merged from that is not byte-level, such as
// Gemma's. A character that has no token is spelled in the tokens of its bytes: byte fallback.
type characters struct {
	plane [1 << 16]int32 // the tokens of the characters below U+10000; -1: none
	rest  map[rune]int32
}

func newCharacters(vocab map[string]int32) *characters {
	c := &characters{rest: map[rune]int32{}}
	for i := range c.plane {
		c.plane[i] = -1
	}
	for text, id := range vocab {
		switch r, n := utf8.DecodeRuneInString(text); {
		case n < len(text):
		case r < rune(len(c.plane)):
			c.plane[r] = id
		default:
			c.rest[r] = id
		}
	}
	return c
}

func (c *characters) append(symbols []int32, piece string, bytes *[256]int32) []int32 {
	for i, r := range piece {
		id := int32(-1)
		if r < rune(len(c.plane)) {
			id = c.plane[r]
		} else if found, ok := c.rest[r]; ok {
			id = found
		}
		if id >= 0 {
			symbols = append(symbols, id)
			continue
		}
		for k := i; k < i+utf8.RuneLen(r); k++ {
			symbols = append(symbols, bytes[piece[k]])
		}
	}
	return symbols
}

// byteName is how a vocabulary with byte fallback writes the token of a byte.
func byteName(b int) string { return fmt.Sprintf("<0x%02X>", b) }

// seams tells where a text without blanks between its pieces can be cut before merging: between two
// characters that end and begin the halves of no merge. No merge reaches across a seam, so the tokens
// are those of the whole, and a text of any length is merged in short pieces.
type seams struct {
	near [seamColumns][seamColumns]bool
	far  map[[2]rune]bool
}

// seamColumns has ASCII and the character that stands for a space, which make nearly all of a program.
const (
	seamColumns = utf8.RuneSelf + 1
	blank       = '▁'
)

func seamColumn(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return int(r)
	case r == blank:
		return utf8.RuneSelf
	}
	return -1
}

// join notes that left and right are merged.
func (s *seams) join(left, right string) {
	a, _ := utf8.DecodeLastRuneInString(left)
	b, _ := utf8.DecodeRuneInString(right)
	if i, j := seamColumn(a), seamColumn(b); i >= 0 && j >= 0 {
		s.near[i][j] = true
	} else {
		s.far[[2]rune{a, b}] = true
	}
}

func (s *seams) joined(a, b rune) bool {
	if i, j := seamColumn(a), seamColumn(b); i >= 0 && j >= 0 {
		return s.near[i][j]
	}
	return s.far[[2]rune{a, b}]
}

// split cuts a text at its seams.
func (s *seams) split(text string, emit func(piece string)) {
	start, last := 0, rune(-1)
	for i, r := range text {
		if i > 0 && !s.joined(last, r) {
			emit(text[start:i])
			start = i
		}
		last = r
	}
	if start < len(text) {
		emit(text[start:])
	}
}
