package display

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shell reads the quoted word as the path, and a word that needs no quotes has none.
func TestWord(t *testing.T) {
	for _, path := range []string{"runs/first", "/a-b_c/d.e:f,g@h+i#01", "Größe→日本"} {
		require.Equal(t, path, ShellQuote(path))
	}
	odd := []string{"", "a b", "it's", `"x"`, "$HOME", "a;b", "a&b", "*", "~/x", "#x", "a\\b", "a\nb", "(x)", "{a,b}", "a`b`", "!x"}
	for _, path := range odd {
		said, err := exec.Command("sh", "-c", "printf %s "+ShellQuote(path)).Output()
		require.NoError(t, err)
		require.Equal(t, path, string(said))
		require.NotEqual(t, path, ShellQuote(path))
	}
}

// ExpandTilde expands a leading ~ like a shell; for other paths it returns nothing.
func TestHome(t *testing.T) {
	t.Setenv("HOME", "/home/a b")
	require.Equal(t, "'/home/a b/runs'", ExpandTilde("~/runs"))
	require.Equal(t, "'/home/a b'", ExpandTilde("~"))
	for _, path := range []string{"", "runs", "./~/runs", "a~/b", "~backup", "/~"} {
		require.Empty(t, ExpandTilde(path), path)
	}
	t.Setenv("HOME", "")
	require.Equal(t, "DIR", ExpandTilde("~/runs"))
}
