// Package disk writes files that must survive a power cut. Its functions are like their namesakes in package os. The
// content of a file is durable after its Sync, its name after SyncFolder of its folder.
//
// Observer is told about all writes, so that a test can derive what a power cut at any moment may leave.
package disk

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Op is an operation: Kind, on Path.
type Op struct {
	Kind Kind
	Path string
	To   string // of a rename
	Text []byte // of a write, which appends
	Size int64  // of a truncation
}

// Kind is the kind of an operation.
type Kind int

// The kinds. A sync is of a file's content, or of the names in a folder.
const (
	CreatedFolder Kind = iota
	CreatedFile
	Wrote
	Truncated
	Synced
	SyncedFolder
	Renamed
	Removed
)

// Observer is called after each operation; nil outside of tests.
var Observer func(Op)

func observe(op Op, err error) error {
	if err == nil && Observer != nil {
		Observer(op)
	}
	return err
}

// File is a file that is only appended to.
type File struct{ f *os.File }

// Append opens a file for appending, creating it if necessary.
func Append(path string) (*File, error) {
	_, missing := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if errors.Is(missing, fs.ErrNotExist) {
		observe(Op{Kind: CreatedFile, Path: path}, nil)
	}
	return &File{f}, nil
}

// CreateTemp makes a new file in dir, with a random number in place of the star in pattern. Unlike os.CreateTemp it leaves permissions
// to the umask.
func CreateTemp(dir, pattern string) (*File, error) {
	before, after, _ := strings.Cut(pattern, "*")
	for {
		name := filepath.Join(dir, before+strconv.FormatUint(uint64(rand.Uint32()), 10)+after)
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		observe(Op{Kind: CreatedFile, Path: f.Name()}, nil)
		return &File{f}, nil
	}
}

// Name is the path that was opened.
func (f *File) Name() string { return f.f.Name() }

// Write appends.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.f.Write(p)
	if n > 0 && Observer != nil {
		Observer(Op{Kind: Wrote, Path: f.Name(), Text: append([]byte(nil), p[:n]...)})
	}
	return n, err
}

// Truncate truncates the file.
func (f *File) Truncate(size int64) error {
	return observe(Op{Kind: Truncated, Path: f.Name(), Size: size}, f.f.Truncate(size))
}

// Size is how long the file is.
func (f *File) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Replaced reports whether the path now belongs to another file, or to none in an existing folder: what is written would be lost.
func (f *File) Replaced() bool {
	own, err := f.f.Stat()
	named, nerr := os.Stat(f.Name())
	if err != nil || nerr == nil {
		return err == nil && !os.SameFile(own, named)
	}
	_, err = os.Stat(filepath.Dir(f.Name()))
	return os.IsNotExist(nerr) && err == nil
}

// CopyMode gives the file the permissions of the file at path, which it is to replace, if there is one.
func (f *File) CopyMode(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return f.f.Chmod(info.Mode().Perm())
	}
	return nil
}

// Sync makes the content durable.
func (f *File) Sync() error { return observe(Op{Kind: Synced, Path: f.Name()}, f.f.Sync()) }

// Close closes the file without a sync.
func (f *File) Close() error { return f.f.Close() }

// SyncFolder makes the names in a folder durable, on file systems that can.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return observe(Op{Kind: SyncedFolder, Path: dir}, errors.Join(err, d.Close()))
}

// MkdirAll makes a folder and its missing parents, durably, except where a parent is not readable and so cannot be
// synced.
func MkdirAll(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	} else if err != nil { // not because it exists already
		return os.MkdirAll(dir, 0o755)
	}
	observe(Op{Kind: CreatedFolder, Path: dir}, nil)
	if err := SyncFolder(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// Rename renames a file or a folder, replacing a file of that name.
func Rename(from, to string) error {
	return observe(Op{Kind: Renamed, Path: from, To: to}, os.Rename(from, to))
}

// Remove removes a file or an empty folder.
func Remove(path string) error { return observe(Op{Kind: Removed, Path: path}, os.Remove(path)) }

// RemoveAll removes a file, or a folder with its content, if it exists. It does not follow links.
func RemoveAll(path string) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
