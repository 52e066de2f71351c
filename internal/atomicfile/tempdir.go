package atomicfile

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// tempInfix comes between the name of the result and a number, in the name of a temporary folder.
const tempInfix = ".making-"

// NameOverhead is how many bytes the names of temporary files and folders are longer than that of the result, at most.
const NameOverhead = len("." + tempInfix + "4294967295")

// TempDir makes a hidden temporary folder next to path; done removes it. A killed process leaves its folder, possibly with a whole
// model in it: those that no process has locked are removed by the next call for the same path.
func TempDir(path string) (folder string, done func(), err error) {
	parent, prefix := filepath.Dir(path), "."+filepath.Base(path)+tempInfix
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", nil, err
	}
	if err := sweepBeside(parent, prefix, ""); err != nil {
		return "", nil, err
	}
	for {
		folder = filepath.Join(parent, prefix+strconv.FormatUint(uint64(rand.Uint32()), 10))
		if err = os.Mkdir(folder, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return "", nil, err
		}
		lock, err := lockNew(folder)
		if err != nil {
			return "", nil, errors.Join(err, os.Remove(folder))
		}
		if lock != nil {
			return folder, func() { os.RemoveAll(folder); lock.Close() }, nil
		}
	}
}

// WithPath rewords an error about a file in the temporary folder to name path, as the user does not know the folder. Other errors are
// returned unchanged.
func WithPath(path string, err error) error {
	if at := writing(err, hidden(path)); at != nil {
		return &fs.PathError{Op: "write", Path: path, Err: at.Err}
	}
	return err
}

// hidden is the prefix of temporary folders for path, absolute.
func hidden(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+tempInfix)
}

// writing finds an error about a path with that prefix.
func writing(err error, prefix string) *fs.PathError {
	switch e := err.(type) {
	case *fs.PathError:
		path, _ := filepath.Abs(e.Path)
		if strings.HasPrefix(path, prefix) && slices.Contains([]string{"write", "sync", "close", "mkdir"}, e.Op) {
			return e
		}
		return writing(e.Err, prefix)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if at := writing(one, prefix); at != nil {
				return at
			}
		}
	case interface{ Unwrap() error }:
		return writing(e.Unwrap(), prefix)
	}
	return nil
}

// lockNew locks what was just made; nil if another process took it for abandoned and removes it.
func lockNew(made string) (*os.File, error) {
	lock, refused, err := lockFile(made)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case errors.Is(refused, syscall.EWOULDBLOCK):
		return nil, lock.Close()
	}
	return lock, nil
}

// lockFile locks a file or folder until the process ends. refused is why the lock is not available: it is taken (syscall.EWOULDBLOCK), or
// the file system has no locks.
func lockFile(path string) (f *os.File, refused, err error) {
	if f, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	refused = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if _, err = os.Stat(path); err != nil {
		f.Close()
	}
	return f, refused, err
}

// sweepBeside removes abandoned folders named prefix, a number, suffix; with a suffix it removes files.
func sweepBeside(parent, prefix, suffix string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, begins := strings.CutPrefix(e.Name(), prefix)
		number, ends := strings.CutSuffix(number, suffix)
		kind := fs.ModeDir
		if suffix != "" {
			kind = 0 // regular files
		}
		if !begins || !ends || e.Type() != kind || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		left := filepath.Join(parent, e.Name())
		f, refused, err := lockFile(left)
		if err != nil {
			continue // gone, or in use
		}
		if refused == nil {
			disk.RemoveAll(left) // leftovers do no harm
		}
		f.Close()
	}
	return nil
}
