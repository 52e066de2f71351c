package jsonl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tail returns the lines between the first and the last newline of the tail, and no partial ones.
func TestEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	for _, text := range []string{"", "\n", "one\n", "one\ntwo\n", "one\ntwo\nthr", "no end", "\n\none\n\n"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		for most := range int64(len(text) + 3) {
			lines, err := Tail(path, most)
			require.NoError(t, err)
			var got strings.Builder
			for _, line := range lines {
				got.Write(line)
				got.WriteByte('\n')
			}
			want := text
			if int(most) < len(text) {
				want = text[len(text)-int(most):]
				_, after, ok := strings.Cut(want, "\n")
				if want = after; !ok {
					want = ""
				}
			}
			want = want[:strings.LastIndexByte(want, '\n')+1]
			require.Equal(t, want, got.String(), "the last %d bytes of %q", most, text)
		}
	}
	_, err := Tail(path+"none", 10)
	require.ErrorIs(t, err, os.ErrNotExist)
}
