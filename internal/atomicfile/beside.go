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

// making is what the name of a folder beside has behind that of what is made in it, before a number.
const making = ".making-"

// More is how many bytes longer than a name those are, at the most, that are taken beside it until what it is of is whole.
const More = len("." + making + "4294967295")

// Beside makes a hidden folder next to path, for what that is made from or in; done removes it, or what is left of it. Who was killed
// has left one, perhaps with a whole model in it: those that nobody is at work in are removed by the next that makes the same.
func Beside(path string) (folder string, done func(), err error) {
	parent, prefix := filepath.Dir(path), "."+filepath.Base(path)+making
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
		lock, err := own(folder)
		if err != nil {
			return "", nil, errors.Join(err, os.Remove(folder))
		}
		if lock != nil {
			return folder, func() { os.RemoveAll(folder); lock.Close() }, nil
		}
	}
}

// Named says of what could not be written in a folder beside path that it is path: nobody has heard of the folder. Other errors stay
// as they are.
func Named(path string, err error) error {
	if at := writing(err, hidden(path)); at != nil {
		return &fs.PathError{Op: "write", Path: path, Err: at.Err}
	}
	return err
}

// hidden is how the folders beside path begin, absolute.
func hidden(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+making)
}

// writing finds, among errors, one of writing to what begins so.
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

// own takes the lock of what was just made; nil where another one that makes the same took it for left, and removes it.
func own(made string) (*os.File, error) {
	lock, refused, err := hold(made)
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

// hold takes the lock of a file or folder, which lasts until the process is gone. refused is why it is not to be had: somebody has it
// (syscall.EWOULDBLOCK), or the file system has no locks.
func hold(path string) (f *os.File, refused, err error) {
	if f, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	refused = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if _, err = os.Stat(path); err != nil {
		f.Close()
	}
	return f, refused, err
}

// sweepBeside removes what nobody holds and is called prefix, a number, suffix: folders, or with a suffix files.
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
			kind = 0 // an ordinary file
		}
		if !begins || !ends || e.Type() != kind || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		left := filepath.Join(parent, e.Name())
		f, refused, err := hold(left)
		if err != nil {
			continue // it is gone, or somebody else's
		}
		if refused == nil {
			disk.RemoveAll(left) // what cannot be removed is in nobody's way
		}
		f.Close()
	}
	return nil
}
