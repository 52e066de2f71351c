package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// If the path is a link to an empty folder, the result replaces that folder, and the link stays.
func TestAFolderThatIsALink(t *testing.T) {
	folder, link := filepath.Join(t.TempDir(), "folder"), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.NoError(t, os.Symlink(folder, link))
	require.NoError(t, WriteDir(link, func(unfinished string) error {
		require.Equal(t, filepath.Dir(folder), filepath.Dir(unfinished), "the temporary folder is beside the link's target")
		return os.WriteFile(filepath.Join(unfinished, "file"), nil, 0o644)
	}))
	require.FileExists(t, filepath.Join(folder, "file"))
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, folder, to)
}

// A folder does not replace a file, and one that another writer completed first is reported.
func TestAFolderThatCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder")
	require.ErrorIs(t, WriteDir(path, os.RemoveAll), fs.ErrNotExist)
	require.NoDirExists(t, path)
	require.NoError(t, os.WriteFile(path, []byte("a file"), 0o644))
	err := WriteDir(path, func(string) error { panic("this is refused before") })
	require.True(t, badinput.Is(err))
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.FileExists(t, path)

	path = filepath.Join(t.TempDir(), "folder")
	err = WriteDir(path, func(string) error { // while another writer makes the same
		require.NoError(t, os.Mkdir(path, 0o755))
		return os.WriteFile(filepath.Join(path, "other"), nil, 0o644)
	})
	require.ErrorIs(t, err, syscall.ENOTEMPTY)
	require.FileExists(t, filepath.Join(path, "other"))
}

// The same for a link: the result replaces its target.
func TestAResultThatIsALink(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o644))
	require.NoError(t, os.Symlink(file, link))
	require.NoError(t, ResultBytes(link, []byte("new")))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, file, to)
}
