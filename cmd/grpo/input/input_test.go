package input

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Compressed lines and text in UTF-16 are refused with what to type; an empty file and standard input are read as they are.
func TestFilesThatAreNoText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chats.jsonl.gz")
	for text, says := range map[string]string{
		"\x1f\x8b\x08\x00": "found a gzip file, expected text in UTF-8; type gunzip -c < " + path + " > rows.jsonl, and use that file",
		"\xff\xfe{\x00":    "found text in UTF-16",
		"":                 "",
		"{}\n":             "",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		in, _, err := Open(path, nil)
		if says != "" {
			require.True(t, badinput.Is(err))
			require.ErrorContains(t, err, path+": "+says)
			continue
		}
		require.NoError(t, err)
		got, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.NoError(t, in.Close())
	}
	in, name, err := Open("-", strings.NewReader("\x1f\x8b"))
	require.NoError(t, err)
	require.Equal(t, "standard input", name)
	require.NoError(t, in.Close())
}
