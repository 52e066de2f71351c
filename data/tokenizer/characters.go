package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// characters maps characters to their tokens. A vocabulary that is not byte-level, such as Gemma's, merges
// pieces from these. A character without a token becomes the tokens of its bytes: byte fallback.
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

// byteName is the name of the token of a byte in a vocabulary with byte fallback.
func byteName(b int) string { return fmt.Sprintf("<0x%02X>", b) }

// seams says where a text can be cut before merging without changing its tokens: between characters a and
// b, unless some merge joins a token that ends in a with one that begins with b. So a long text can be
// merged in short pieces, which is faster, even if the file has no pre-tokenizer that splits it.
type seams struct {
	common [seamColumns][seamColumns]bool // merged pairs of the common characters
	rare   map[[2]rune]bool               // all other merged pairs
}

// seamColumns counts ASCII and the character that stands for a space, which make up nearly all of a program.
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

// addMerge records that some merge joins left and right.
func (s *seams) addMerge(left, right string) {
	a, _ := utf8.DecodeLastRuneInString(left)
	b, _ := utf8.DecodeRuneInString(right)
	if i, j := seamColumn(a), seamColumn(b); i >= 0 && j >= 0 {
		s.common[i][j] = true
	} else {
		s.rare[[2]rune{a, b}] = true
	}
}

func (s *seams) mayMerge(a, b rune) bool {
	if i, j := seamColumn(a), seamColumn(b); i >= 0 && j >= 0 {
		return s.common[i][j]
	}
	return s.rare[[2]rune{a, b}]
}

// split cuts a text at its seams.
func (s *seams) split(text string, emit func(piece string)) {
	start, last := 0, rune(-1)
	for i, r := range text {
		if i > 0 && !s.mayMerge(last, r) {
			emit(text[start:i])
			start = i
		}
		last = r
	}
	if start < len(text) {
		emit(text[start:])
	}
}
