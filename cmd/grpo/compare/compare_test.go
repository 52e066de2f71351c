package compare

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The base of a comparison counts as a run, at whatever position it is named.
func TestTheBaseIsARun(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("a", 0o700))
	for _, words := range [][]string{{"a", "--base", "b"}, {"--base", "a/", "a", "b"}, {"a", "b"}} {
		cmd := Command()
		require.NoError(t, cmd.ParseFlags(words))
		require.NoError(t, cmd.Args(cmd, cmd.Flags().Args()), words)
	}
	for _, words := range [][]string{{"a", "--base", "./a"}, {"a"}, {"--base", "a"}} {
		cmd := Command()
		require.NoError(t, cmd.ParseFlags(words))
		require.ErrorContains(t, cmd.Args(cmd, cmd.Flags().Args()), "found 1 directory of a run, expected 2 or more", words)
	}
	require.NoError(t, os.WriteFile("a/sweep.json", nil, 0o600))
	require.EqualError(t, Command().Args(Command(), []string{"a"}), "a is a sweep; type its runs, a/runs/*")
	all, at := includeBase("c", []string{"a", "b"})
	require.Equal(t, []string{"c", "a", "b"}, all)
	require.Zero(t, at)
	all, at = includeBase("b/", []string{"a", "b"})
	require.Equal(t, []string{"a", "b"}, all)
	require.Equal(t, 1, at)
}
