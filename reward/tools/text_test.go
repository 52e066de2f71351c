package tools

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// A text that is cut keeps twice as much of its beginning as of its end, in whole characters, and says how much is left out.
func TestTextsThatAreCut(t *testing.T) {
	missing := regexp.MustCompile(`\n… (\d+) bytes left out …\n`)
	for _, letter := range []string{"a", "é", "日", "😀"} {
		text := strings.Repeat(letter, 200)
		require.Equal(t, text, Fit(text, len(text)))
		for n := room; n < room+99; n++ {
			excerpts := []string{Fit(text, n)}
			if letter == "a" { // what was kept of an output is cut before it is words
				excerpts = append(excerpts, excerpt(sandbox.Excerpt{Head: []byte(text[:90]), Tail: []byte(text[100:]), LeftOut: 10}, n))
			}
			for _, got := range excerpts {
				require.True(t, utf8.ValidString(got))
				require.LessOrEqual(t, len(got), n)
				found := missing.FindStringSubmatchIndex(got)
				require.NotNil(t, found, got)
				head, tail := found[0], len(got)-found[1]
				require.InDelta(t, 2*(n-room), 3*head, 3*4)
				require.InDelta(t, n-room, 3*tail, 3*4)
				left, err := strconv.Atoi(got[found[2]:found[3]])
				require.NoError(t, err)
				require.Equal(t, len(text), head+left+tail)
			}
		}
	}
	require.Equal(t, "ab", excerpt(sandbox.Excerpt{Head: []byte("a"), Tail: []byte("b")}, 9))
	require.Equal(t, "<f at 0x…> \ufffd", steady(fmt.Sprintf("<f at %#x> \xff", 0x7f00dead)))
}
