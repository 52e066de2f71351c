package atomicfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The temporary file of a killed writer is removed by the next writer of the same file; files in use, other names, folders and links are
// not.
func TestWhatAKilledWriterLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	kept := []string{".a.csv.notes.tmp", ".a.csv.tmp", ".a.csv..tmp", ".b.csv.12.tmp", "a.csv.3.tmp", ".a.csv.4"}
	for _, name := range append([]string{".a.csv.12.tmp", ".a.csv.34567.tmp"}, kept...) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".a.csv.8.tmp"), 0o755))
	require.NoError(t, os.Symlink(".a.csv.notes.tmp", filepath.Join(dir, ".a.csv.9.tmp")))
	kept = append(kept, ".a.csv.8.tmp", ".a.csv.9.tmp", "a.csv")
	require.NoError(t, Result(path, func(w io.Writer) error {
		require.Len(t, names(t, dir), len(kept), "only its own temporary file, and none that was left")
		require.NoError(t, ResultBytes(path, []byte("of another")))
		require.Len(t, names(t, dir), len(kept)+1, "another writer leaves the temporary file of this one")
		_, err := io.WriteString(w, "whole")
		return err
	}))
	require.ElementsMatch(t, kept, names(t, dir))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "whole", string(text))
	none := filepath.Join(dir, "none", "a")
	require.EqualError(t, ResultBytes(none, nil), "write "+none+": no such file or directory")
}

// Replacing a file keeps its permissions.
func TestTheModeIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, mode := range []os.FileMode{0o644, 0o600, 0o664} { // the first, of a new file, is readable by everybody
		if mode != 0o644 {
			require.NoError(t, os.Chmod(path, mode))
		}
		require.NoError(t, ResultBytes(path, nil))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode())
	}
}

func names(t *testing.T, dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// Of many concurrent writers of the same file, each succeeds, and the file is that of one of them.
func TestManyWriteTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				assert.NoError(t, ResultBytes(path, fmt.Appendf(nil, "of %d", i)))
			}
		})
	}
	all.Wait()
	require.Equal(t, []string{"a"}, names(t, filepath.Dir(path)))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `^of \d$`, string(text))
}
