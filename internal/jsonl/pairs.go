package jsonl

import (
	"bytes"
	"strconv"
)

// LoneSurrogate is the offset of the first \uXXXX in JSON that is an unpaired surrogate, which encoding/json would replace by U+FFFD; -1
// if there is none.
func LoneSurrogate(raw []byte) int {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return -1
	}
	for i := 0; i < len(raw); i++ {
		next := bytes.IndexByte(raw[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		switch u := EscapedUnit(raw[i:]); {
		case u >= 0xD800 && u < 0xDC00:
			if low := EscapedUnit(raw[i+6:]); low < 0xDC00 || low > 0xDFFF {
				return i
			}
			i += 11
		case u >= 0xDC00 && u < 0xE000:
			return i
		default:
			i++ // skip the escaped character, which may be a backslash
		}
	}
	return -1
}

// EscapedUnit is the code unit of the \uXXXX at the beginning of JSON text, or -1.
func EscapedUnit(raw []byte) int {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	u, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int(u)
}
