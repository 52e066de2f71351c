package atomicfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The umask applies to files written here, also while they are written.
func TestTheUmaskHolds(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	for mask, mode := range map[int]fs.FileMode{0o077: 0o600, 0o027: 0o640, 0o022: 0o644, 0: 0o644} {
		syscall.Umask(mask)
		dir := t.TempDir()
		is := func(mode fs.FileMode, paths ...string) {
			t.Helper()
			for _, path := range paths {
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.Equal(t, mode, info.Mode().Perm(), path)
			}
		}
		written, result, folder := filepath.Join(dir, "written"), filepath.Join(dir, "result"), filepath.Join(dir, "folder")
		require.NoError(t, WriteBytes(written, []byte("x")))
		require.NoError(t, ResultBytes(result, []byte("x")))
		require.NoError(t, WriteDir(folder, func(unfinished string) error {
			is(0o755&^fs.FileMode(mask), unfinished)
			return WriteBytes(filepath.Join(unfinished, "file"), nil)
		}))
		is(mode, written, result, filepath.Join(folder, "file"))
		is(0o755&^fs.FileMode(mask), folder)

		require.NoError(t, os.Chmod(written, 0o600), "an existing file keeps its permissions")
		require.NoError(t, Write(written, func(io.Writer) error {
			found, err := filepath.Glob(filepath.Join(dir, ".written.*.tmp"))
			require.NoError(t, err)
			require.Len(t, found, 1)
			is(0o600, found...)
			return nil
		}))
		is(0o600, written)
	}
}
