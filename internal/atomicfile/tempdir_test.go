package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The remains of a killed process are removed by the next one that makes the same result; folders in use, other names, and files are not.
func TestWhatAKillLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "o")
	put := func(name string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name, "model"), 0o755))
	}
	busy, done, err := TempDir(path)
	require.NoError(t, err)
	for _, name := range []string{".o.making-12", ".o.making-notes", ".p.making-12", "o.making-3"} {
		put(name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".o.making-7"), nil, 0o644))
	names := func() (all []string) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	kept := []string{".o.making-7", ".o.making-notes", ".p.making-12", "o.making-3"}
	require.NoError(t, WriteDir(path, func(unfinished string) error {
		require.DirExists(t, busy)
		require.NoDirExists(t, filepath.Join(dir, ".o.making-12"))
		return os.WriteFile(filepath.Join(unfinished, "a"), nil, 0o644)
	}))
	require.ElementsMatch(t, append(kept, "o", filepath.Base(busy)), names())
	require.FileExists(t, filepath.Join(path, "a"))
	done()
	require.ElementsMatch(t, append(kept, "o"), names())
	_, _, err = TempDir(filepath.Join(path, "a", "b"))
	require.Error(t, err)
}

// Errors about the temporary folder name the path of the result instead, also for nested paths; other errors are unchanged.
func TestErrorsNameWhatIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o")
	beside, done, err := TempDir(path)
	require.NoError(t, err)
	defer done()
	full := errors.New("no space left on device")
	inner := WriteDir(filepath.Join(beside, "model"), func(unfinished string) error {
		return fmt.Errorf("tensor: %w", errors.Join(errors.New("x"), &fs.PathError{Op: "write", Path: filepath.Join(unfinished, "a"), Err: full}))
	})
	require.EqualError(t, inner, "write "+filepath.Join(beside, "model")+": no space left on device")
	require.EqualError(t, WithPath(path, inner), "write "+path+": no space left on device")
	require.ErrorIs(t, WithPath(path, inner), full)
	for _, other := range []error{
		nil, full, inner, &fs.PathError{Op: "open", Path: filepath.Join(beside, "a"), Err: fs.ErrNotExist},
	} {
		require.Equal(t, other, WithPath(path+"2", other))
	}
	read := &fs.PathError{Op: "open", Path: filepath.Join(beside, "a"), Err: fs.ErrNotExist}
	require.Equal(t, error(read), WithPath(path, read))
}

// Of many concurrent writers of the same result, each has a folder of its own until it is done.
func TestManyMakeTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				folder, done, err := TempDir(path)
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, os.WriteFile(filepath.Join(folder, "a"), nil, 0o644))
				done()
			}
		})
	}
	all.Wait()
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Empty(t, left)
}
