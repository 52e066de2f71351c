package look

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shell makes the path of it again, and what needs no quotes has none.
func TestWord(t *testing.T) {
	for _, path := range []string{"runs/first", "/a-b_c/d.e:f,g@h+i#01", "Größe→日本"} {
		require.Equal(t, path, Word(path))
	}
	odd := []string{"", "a b", "it's", `"x"`, "$HOME", "a;b", "a&b", "*", "~/x", "#x", "a\\b", "a\nb", "(x)", "{a,b}", "a`b`", "!x"}
	for _, path := range odd {
		said, err := exec.Command("sh", "-c", "printf %s "+Word(path)).Output()
		require.NoError(t, err)
		require.Equal(t, path, string(said))
		require.NotEqual(t, path, Word(path))
	}
}
