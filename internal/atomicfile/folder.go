package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// WriteDir makes the folder path, which must not exist or be empty, from what fill writes into a temporary one beside it.
// It appears whole or not at all. If path is a link, its target is made.
func WriteDir(path string, fill func(unfinished string) error) error {
	path, err := filepath.Abs(ResolveLink(path))
	if err != nil {
		return err
	}
	if err := checkAbsent(path); err != nil {
		return err
	}
	unfinished, done, err := TempDir(path)
	if err != nil {
		return WithPath(path, err)
	}
	defer done() // nothing to do after the rename
	if err := fill(unfinished); err != nil {
		return WithPath(path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// ResolveLink is the target of a path that is a link, so that temporary files are on the target's disk; else the path.
func ResolveLink(path string) string {
	path = filepath.Clean(path)
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
	}
	return path
}

// checkAbsent refuses to overwrite a folder that is not empty.
func checkAbsent(dir string) error {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return badinput.Errorf("%w", err)
	}
	if len(found) > 0 {
		return badinput.Errorf("%s: the folder is not empty; choose a new one", dir)
	}
	return nil
}
