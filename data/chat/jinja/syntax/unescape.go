package syntax

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unescape decodes the escapes of a string literal like Python; unknown ones are kept.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	const from, to = `\'"abfnrtv`, "\\'\"\a\b\f\n\r\t\v"
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		switch k := strings.IndexByte(from, c); {
		case k >= 0:
			out.WriteByte(to[k])
		case c == '\n': // line continuation
		case c >= '0' && c <= '7':
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			r, _ := strconv.ParseInt(s[i:i+n], 8, 32)
			out.WriteRune(rune(r))
			i += n - 1
		case c == 'x' || c == 'u' || c == 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if i+n >= len(s) {
				return "", fmt.Errorf(`a string has a short \%c`, c)
			}
			r, err := strconv.ParseUint(s[i+1:i+1+n], 16, 32)
			if err != nil || !utf8.ValidRune(rune(r)) {
				return "", fmt.Errorf(`a string has \%c%s, which is no character`, c, s[i+1:i+1+n])
			}
			out.WriteRune(rune(r))
			i += n
		case c == 'N':
			return "", fmt.Errorf(`a string has \N{…}: characters by name are not supported; write \uXXXX`)
		default:
			out.WriteByte('\\')
			out.WriteByte(c)
		}
	}
	return out.String(), nil
}
