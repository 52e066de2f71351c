package wire

import (
	"bytes"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// nonFinite are the numbers that Python writes and JSON does not have.
var nonFinite = [][]byte{[]byte("NaN"), []byte("-Infinity"), []byte("Infinity")}

// NullNonFinite makes JSON of a text that is JSON but for numbers that are none: they become null. The error names the first of them by its
// field, and is nil if there are none.
func NullNonFinite(text []byte) (clean []byte, err error) {
	if !slices.ContainsFunc(nonFinite, func(x []byte) bool { return bytes.Contains(text, x) }) {
		return text, nil
	}
	var name []byte // the last text that was seen: the name of the field, if a number comes next
	for i := 0; i < len(text); {
		if text[i] == '"' {
			end := i + 1
			for ; end < len(text) && text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			end = min(end+1, len(text))
			name = text[i:end]
			clean, i = append(clean, name...), end
			continue
		}
		at := slices.IndexFunc(nonFinite, func(x []byte) bool { return bytes.HasPrefix(text[i:], x) })
		if at < 0 {
			clean, i = append(clean, text[i]), i+1
			continue
		}
		if err == nil {
			err = badinput.Errorf("%.60s: found %s, expected a finite number", bytes.Trim(name, `"`), nonFinite[at])
		}
		clean, i = append(clean, "null"...), i+len(nonFinite[at])
	}
	return clean, err
}
