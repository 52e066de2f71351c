package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Folder makes the folder path, which must not be there yet or be empty, of what fill writes into another one beside it.
// It appears when everything is written, or not at all. Of a link it is the folder that the link leads to.
func Folder(path string, fill func(unfinished string) error) error {
	path, err := filepath.Abs(Led(path))
	if err != nil {
		return err
	}
	if err := checkAbsent(path); err != nil {
		return err
	}
	unfinished, done, err := Beside(path)
	if err != nil {
		return Named(path, err)
	}
	defer done() // after the rename there is nothing left under this name
	if err := fill(unfinished); err != nil {
		return Named(path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Led is where a path leads if it is a link: what is made in its place would be on the disk of the link.
func Led(path string) string {
	path = filepath.Clean(path)
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
	}
	return path
}

// checkAbsent refuses to write over a folder that holds something.
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
