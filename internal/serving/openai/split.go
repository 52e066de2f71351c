package openai

import (
	"bytes"
	"encoding/json"
	"math"
)

// split calls field with the fields of an object, in order; it returns false without any call if the text is not an object. It
// reads each byte twice, json.Unmarshal four times: a text may have megabytes.
func split(text []byte, field func(name string, raw json.RawMessage)) bool {
	if i := blanks(text, 0); i == len(text) || text[i] != '{' || !json.Valid(text) {
		return false
	}
	for i := blanks(text, 0) + 1; ; i++ { // i is at a brace or a comma; the text is valid JSON
		if i = blanks(text, i); text[i] == '}' {
			return true
		}
		end := valueEnd(text, i)
		name, is := quoted(text[i:end])
		if !is {
			return false
		}
		i = blanks(text, blanks(text, end)+1)
		end = valueEnd(text, i)
		field(name, text[i:end])
		if i = blanks(text, end); text[i] == '}' {
			return true
		}
	}
}

// blanks skips white space from i on.
func blanks(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is the index after the string that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(text))
}

// valueEnd is the index after the value that begins at i.
func valueEnd(text []byte, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = stringEnd(text, i) - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 { // the end of the enclosing object or list
				return i
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 { // the end of a number or a word
				return i
			}
		}
	}
	return i
}

// quoted parses a value that is a string.
func quoted(raw json.RawMessage) (text string, is bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if plain := raw[1 : len(raw)-1]; !bytes.ContainsRune(plain, '\\') {
		return string(plain), true
	}
	return text, json.Unmarshal(raw, &text) == nil
}

// wholes parses a value that is a list of 32-bit whole numbers, and nothing else.
func wholes(raw json.RawMessage) (list []int32, is bool) {
	i := 0
	for next := byte('['); ; next = ',' {
		if i = blanks(raw, i); i == len(raw) || raw[i] != next {
			return list, i < len(raw) && raw[i] == ']' && list != nil && blanks(raw, i+1) == len(raw)
		}
		i = blanks(raw, i+1)
		n, end := wholeAt(raw, i)
		if end == i || n < math.MinInt32 || n > math.MaxInt32 {
			return nil, false
		}
		if list == nil {
			list = make([]int32, 0, 1+bytes.Count(raw, []byte(",")))
		}
		list, i = append(list, int32(n)), end
	}
}

// wholeAt parses digits from i on; it stops at a number that is too large.
func wholeAt(raw []byte, i int) (n int64, end int) {
	at, sign := i, int64(1)
	if at < len(raw) && raw[at] == '-' {
		at, sign = at+1, -1
	}
	for end = at; end < len(raw) && raw[end] >= '0' && raw[end] <= '9'; end++ {
		if n < math.MaxInt32*2 {
			n = 10*n + int64(raw[end]-'0')
		}
	}
	if end == at {
		return 0, i
	}
	if rest := raw[end:]; len(rest) > 1 && rest[0] == '.' && rest[1] == '0' { // some clients write 1.0
		end += 1 + len(rest[1:]) - len(bytes.TrimLeft(rest[1:], "0"))
	}
	return sign * n, end
}
