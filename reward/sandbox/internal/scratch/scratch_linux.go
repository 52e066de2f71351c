//go:build linux && (amd64 || arm64)

package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// Root is the directory that holds the scratch directories of this process's cells. It is locked as long
// as the process lives.
type Root struct {
	Dir  string
	lock *os.File
	made atomic.Int64
}

// What a scratch directory may hold.
const (
	Bytes = 32 << 20
	Files = 1024
)

const prefix = "grpo-scratch-"

// NewRoot makes the directory, and removes those that killed processes have left.
func NewRoot() (*Root, error) {
	sweep(time.Minute)
	base, err := filepath.Abs(os.TempDir())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return nil, fmt.Errorf("%w; set TMPDIR to a directory that can be written to", err)
	}
	lock, err := openDirectory(dir)
	if err == nil && !disk.Lock(lock) {
		err = fmt.Errorf("%s: another process has it locked", dir)
	}
	if err == nil {
		// Cells, which may be other users, can pass through to their own directories but not list it.
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		lock.Close()
		os.Remove(dir)
		return nil, err
	}
	return &Root{Dir: dir, lock: lock}, nil
}

// openDirectory opens a directory, but not through a symbolic link.
func openDirectory(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// sweep removes the unlocked rooms of this user. It leaves young ones, which may be about to be locked, and all where there are no locks.
func sweep(old time.Duration) {
	rooms, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range rooms {
		info, err := os.Lstat(dir)
		if err != nil || time.Since(info.ModTime()) < old || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			continue
		}
		lock, err := openDirectory(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			Remove(dir)
		}
		lock.Close()
	}
}

// Make makes the scratch directory of a cell, owned by the given user if the cell has its own.
func (r *Root) Make(user int, own bool) (string, error) {
	dir := filepath.Join(r.Dir, strconv.FormatInt(r.made.Add(1), 10))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if own {
		if err := os.Chown(dir, user, user); err != nil {
			os.Remove(dir)
			return "", err
		}
	}
	return dir, nil
}

// Close removes the directory.
func (r *Root) Close() {
	Remove(r.Dir)
	r.lock.Close()
}

// Remove removes a directory to which no process writes any more.
func Remove(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	// A program may have made a directory that its own user cannot read.
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}

// Overflows tells whether a scratch directory holds more than Files or Bytes, the size of the file system
// of a cell with its own root, or something that cannot be examined, which only a hostile program makes.
// An error is a failure of the machine.
func Overflows(dir string) (bool, error) {
	files, bytes := 0, int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil // removed or replaced in the meantime
		}
		if err != nil {
			return err
		}
		files++
		bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		if files > Files || bytes > Bytes {
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENAMETOOLONG) {
		return true, nil
	}
	return files > Files || bytes > Bytes, err
}
