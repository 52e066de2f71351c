package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inFolder changes the current directory, without the user's settings of git.
func inFolder(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not on PATH")
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		t.Setenv(name, os.DevNull)
	}
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} { // set by a hook that runs the tests
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name))
	}
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(must(os.Getwd())))
}

func must(s string, _ error) string { return s }

func TestCheckout(t *testing.T) {
	inFolder(t)
	require.Empty(t, Checkout(), "no repository")
	for _, command := range []string{"init -q", "-c user.name=a -c user.email=a@example.com commit -q --allow-empty -m a"} {
		out, err := exec.Command("git", strings.Fields(command)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.Regexp(t, "^[0-9a-f]{40}$", Checkout())
	require.NoError(t, os.WriteFile("new", nil, 0o644))
	require.Regexp(t, "^[0-9a-f]{40} with changes$", Checkout())
}

// If git takes too long, that is reported. Processes that git leaves behind, which hold its pipe, are not waited for.
func TestNobodyWaitsForGit(t *testing.T) {
	was := patience
	t.Cleanup(func() { patience = was })
	patience = 500 * time.Millisecond
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	begun := time.Now()
	for status, want := range map[string]string{
		"exec sleep 60":                "abc, changes unknown",
		"echo ' M a'; sleep 60 & exit": "abc with changes",
	} {
		script := "#!/bin/sh\n[ \"$2\" = rev-parse ] && echo abc && exit\n" + status + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755))
		require.Equal(t, want, Checkout())
	}
	require.Less(t, time.Since(begun), 30*time.Second)
}
