package cachedir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheUsersCacheIsTaken(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	dir, warning, err := Find("grpo/x")
	require.NoError(t, err)
	require.Empty(t, warning)
	require.Equal(t, filepath.Join(home, "grpo/x"), dir)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "the test file is removed")
}

// A home that is missing, or not a folder, is replaced by a temporary folder, which is the same each time.
func TestATemporaryFolderTakesItsPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("HOME", "")
	for _, cache := range []string{"", file} {
		t.Setenv("XDG_CACHE_HOME", cache)
		dir, warning, err := Find("grpo/x")
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(dir, os.TempDir()), dir)
		require.Contains(t, warning, dir+" takes its place, set XDG_CACHE_HOME")
		require.NotContains(t, warning, "\n")
		again, _, err := Find("grpo/x")
		require.NoError(t, err)
		require.Equal(t, dir, again)
	}
	t.Setenv("TMPDIR", file)
	_, _, err := Find("grpo/x")
	require.ErrorContains(t, err, "no temporary one either")
	require.ErrorContains(t, err, "set XDG_CACHE_HOME")
}

// Models and programs are read from the cache, so a folder that others can write to is not used.
func TestNobodyElsesFolder(t *testing.T) {
	own := filepath.Join(t.TempDir(), "grpo")
	dir, err := ownFolder(own)
	require.NoError(t, err)
	require.Equal(t, own, dir)
	dir, err = ownFolder(own)
	require.NoError(t, err)
	require.Equal(t, own, dir)

	require.NoError(t, os.Chmod(own, 0o777))
	t.Setenv("TMPDIR", t.TempDir())
	dir, err = ownFolder(own)
	require.NoError(t, err)
	require.NotEqual(t, own, dir)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(own, link))
	dir, err = ownFolder(link)
	require.NoError(t, err)
	require.NotEqual(t, link, dir)
}

// If the home is a relative path, no cache is made in the current directory.
func TestARelativeHome(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	t.Setenv("HOME", "home")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TMPDIR", t.TempDir())
	dir, warning, err := Find("grpo/x")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(dir, os.TempDir()), dir)
	require.Contains(t, warning, `no folder for a cache: HOME is "home", which is no absolute path; `+dir+" takes its place")
	left, err := os.ReadDir(here)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The test file in a folder has an internal name: errors name the folder.
func TestAFolderThatNobodyCanWriteTo(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("there is no folder here in which nobody can make a file")
	}
	err := Probe("/proc")
	require.ErrorContains(t, err, "write /proc: ")
	require.NotContains(t, err.Error(), "probe")
}
