package tokenizer

import "unicode/utf8"

// appendText appends src to dst with each maximal invalid sequence replaced by one U+FFFD, as the
// Unicode standard recommends and Rust, Python and browsers do. (Go itself replaces each byte.) An
// incomplete character at the end is returned as rest, unless final.
func appendText(dst, src []byte, final bool) (text, rest []byte) {
	for i := 0; i < len(src); {
		if r, n := utf8.DecodeRune(src[i:]); r != utf8.RuneError || n > 1 {
			dst = append(dst, src[i:i+n]...)
			i += n
			continue
		}
		n := invalidLen(src[i:])
		if i+n == len(src) && !utf8.FullRune(src[i:]) && !final {
			return dst, src[i:]
		}
		dst = utf8.AppendRune(dst, utf8.RuneError)
		i += n
	}
	return dst, nil
}

// invalidLen is the length of the invalid sequence at the start of p: the longest prefix that could begin a
// character, at least 1.
func invalidLen(p []byte) int {
	n := 1
	for n < len(p) && !utf8.FullRune(p[:n]) && !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}

// ValidText replaces invalid UTF-8 in s as Decode does: one U+FFFD for each incomplete character.
func ValidText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	text, _ := appendText(nil, []byte(s), true)
	return string(text)
}
