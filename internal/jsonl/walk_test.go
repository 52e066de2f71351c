package jsonl

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Frames are found one after the other without decompressing, wherever the file ends.
func TestFrameEnd(t *testing.T) {
	frames := [][]byte{frame(t, 0, 2, 100), frame(t, 1, 1, 300_000), frame(t, 2, 40, 30)}
	text := bytes.Join(frames, nil)
	f := bytes.NewReader(text)
	at := int64(0)
	for _, one := range frames {
		end, err := FrameEnd(f, at, int64(len(text)))
		require.NoError(t, err)
		require.Equal(t, at+int64(len(one)), end)
		at = end
	}
	for size := 1; size < len(frames[0]); size++ {
		_, err := FrameEnd(bytes.NewReader(text[:size]), 0, int64(size))
		require.ErrorIs(t, err, ErrUnfinished, "%d", size)
	}
	_, err := FrameEnd(f, 1, int64(len(text)))
	require.ErrorContains(t, err, "no frame begins at byte 1")
	next, err := NextFrame(f, 1, int64(len(text)))
	require.NoError(t, err)
	require.EqualValues(t, len(frames[0]), next)
	for _, junk := range []int{0, 1, 64<<10 - 3, 64<<10 - 2, 64 << 10, 200_001} {
		noise := append(bytes.Repeat([]byte{0x28}, junk), frames[0]...)
		next, err = NextFrame(bytes.NewReader(noise), 0, int64(len(noise)))
		require.NoError(t, err)
		require.EqualValues(t, junk, next)
		next, err = NextFrame(bytes.NewReader(noise), 0, int64(junk))
		require.NoError(t, err)
		require.EqualValues(t, junk, next, "without a frame the end is returned")
	}
}

// EachMember finds the members that encoding/json finds.
func FuzzSkim(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":[1,2,-3.5e9],"c":{"d":["x]","\\\"}"]},"e":"\"","f":null}`, `{}`, ` { "a" : "b" } `, `{"a":[]}`,
		`{"a":[1,2}`, `{"a":"\\"}`, `{"a":1,}`, `[1]`, `{"a":[ [1],{"b":2}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		members := map[string]json.RawMessage{}
		twice := false
		ok := EachMember(text, func(name, value []byte) {
			_, had := members[string(name)]
			twice = twice || had
			members[string(name)] = slices.Clone(value)
		})
		var want map[string]json.RawMessage
		if json.Unmarshal(text, &want) != nil || want == nil || bytes.ContainsAny(text, "\\") || twice {
			return // errors and escaped names may differ
		}
		for _, v := range want {
			if len(v) > 1 && v[0] == '[' && v[1] != '"' && bytes.ContainsAny(v[1:], "[\"{") {
				return // for lists of numbers nothing else is required
			}
		}
		require.True(t, ok, "%q", text)
		if utf8.Valid(text) { // else names that differ may be equal for encoding/json
			require.Equal(t, len(want), len(members))
		}
		for name, v := range want {
			if !bytes.ContainsRune([]byte(name), '\uFFFD') {
				require.Equal(t, string(v), string(members[name]))
			}
		}
	})
}
