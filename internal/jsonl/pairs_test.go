package jsonl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Half a surrogate pair is found anywhere, and nothing else is mistaken for one.
func TestHalfPair(t *testing.T) {
	for text, want := range map[string]int{
		`"a"`: -1, `"\ud83d\ude00"`: -1, `"\\ud83d"`: -1, `"\ud7ff\ue000"`: -1, `"\\\ud83d"`: 3, `"\ud83d"`: 1, `"\uDE00"`: 1,
		`"\ud83d\ud83d\ude00"`: 1, `"\ud83d\ude00\ude00"`: 13, `"\ud83d\n"`: 1, `"\ud8`: -1, `"\ud83d\u`: 1,
	} {
		require.Equal(t, want, LoneSurrogate([]byte(text)), text)
	}
}

// What encoding/json would replace by U+FFFD is found.
func FuzzHalfPair(f *testing.F) {
	f.Add(`"\ud83d\ude00"`)
	f.Add(`"\\\ud83d"`)
	f.Fuzz(func(t *testing.T, text string) {
		raw := []byte(strings.ToValidUTF8(text, "?"))
		found, said := LoneSurrogate(raw) >= 0, ""
		lower := strings.ToLower(string(raw))
		if json.Unmarshal(raw, &said) != nil || strings.Contains(lower, "\ufffd") || strings.Contains(lower, `\ufffd`) {
			return
		}
		require.Equal(t, strings.Contains(said, "\ufffd"), found, "%s", raw)
	})
}
