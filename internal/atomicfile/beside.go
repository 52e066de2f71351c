package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// making is what the name of a folder beside has behind that of what is made in it, before a number.
const making = ".making-"

// Beside makes a hidden folder next to path, for what that is made from or in; done removes it, or what is left of it. Who was killed
// has left one, perhaps with a whole model in it: those that nobody is at work in are removed by the next that makes the same.
func Beside(path string) (folder string, done func(), err error) {
	parent, prefix := filepath.Dir(path), "."+filepath.Base(path)+making
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", nil, err
	}
	if err := sweepBeside(parent, prefix); err != nil {
		return "", nil, err
	}
	for {
		if folder, err = os.MkdirTemp(parent, prefix+"*"); err != nil {
			return "", nil, err
		}
		lock, refused, err := hold(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another one that makes the same took it for left
		}
		if err != nil {
			return "", nil, errors.Join(err, os.Remove(folder))
		}
		if errors.Is(refused, syscall.EWOULDBLOCK) { // and is about to remove it
			lock.Close()
			continue
		}
		return folder, func() { os.RemoveAll(folder); lock.Close() }, nil
	}
}

// hold takes the lock of a folder, which lasts until the process is gone. refused is why it is not to be had: somebody has it
// (syscall.EWOULDBLOCK), or the file system has no locks.
func hold(folder string) (f *os.File, refused, err error) {
	if f, err = os.Open(folder); err != nil {
		return nil, nil, err
	}
	refused = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if _, err = os.Stat(folder); err != nil {
		f.Close()
	}
	return f, refused, err
}

// sweepBeside removes the folders that nobody holds.
func sweepBeside(parent, prefix string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), prefix)
		if !ours || !e.IsDir() || strings.Trim(number, "0123456789") != "" {
			continue
		}
		left := filepath.Join(parent, e.Name())
		f, refused, err := hold(left)
		if err != nil {
			continue // it is gone, or somebody else's
		}
		if refused == nil {
			os.RemoveAll(left) // what cannot be removed is in nobody's way
		}
		f.Close()
	}
	return nil
}
