package tokenizer

import (
	"unicode/utf8"

	"github.com/sugarme/tokenizer/pretokenizer"
)

// A byte-level tokenizer.json writes each byte of a token as a printable character, the alphabet: most
// stand for themselves, a space is Ġ, a newline Ċ. The table comes from the upstream library.
var (
	charOf = pretokenizer.BytesChar // map[uint8]string
	byteOf = func() (table [0x144]int16) {
		for i := range table {
			table[i] = -1
		}
		for b, c := range charOf {
			r, _ := utf8.DecodeRuneInString(c)
			table[r] = int16(b)
		}
		return table
	}()
)

// fromAlphabet appends the bytes that s stands for; false if s has a character outside the
// alphabet.
func fromAlphabet(dst []byte, s string) ([]byte, bool) {
	for _, r := range s {
		if int(r) >= len(byteOf) || byteOf[r] < 0 {
			return dst, false
		}
		dst = append(dst, byte(byteOf[r]))
	}
	return dst, true
}

// toAlphabet is the inverse of fromAlphabet.
func toAlphabet(s string) string {
	out := make([]byte, 0, 2*len(s))
	for i := range len(s) {
		out = append(out, charOf[s[i]]...)
	}
	return string(out)
}

// inUTF8 reports whether byte b can occur in valid UTF-8. Other bytes need no token, because Encode
// replaces invalid UTF-8 by U+FFFD.
func inUTF8(b int) bool { return b != 0xC0 && b != 0xC1 && b < 0xF5 }
