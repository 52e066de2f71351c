// Package disk is how files are written that must survive a power cut. Each function does what its namesake in
// package os does. A file's text survives once the file was synced, its name once the folder that it is in was.
//
// All that is written is told to Observer, so that a test can work out what a power cut at any moment may leave.
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

// Op is something that was done: Kind to Path.
type Op struct {
	Kind Kind
	Path string
	To   string // of a rename
	Text []byte // of a write, which adds to the end
	Size int64  // of a cut
}

// Kind is what was done.
type Kind int

// The kinds. A sync is of a file, or of a folder: of the names in it.
const (
	MadeFolder Kind = iota
	MadeFile
	Wrote
	Cut
	Synced
	SyncedFolder
	Renamed
	Removed
)

// Observer is told of everything after it was done; nil outside of tests.
var Observer func(Op)

func observe(op Op, err error) error {
	if err == nil && Observer != nil {
		Observer(op)
	}
	return err
}

// File is a file that is written from its end on.
type File struct{ f *os.File }

// Append opens a file to add to it, and makes it where there is none.
func Append(path string) (*File, error) {
	_, missing := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if errors.Is(missing, fs.ErrNotExist) {
		observe(Op{Kind: MadeFile, Path: path}, nil)
	}
	return &File{f}, nil
}

// CreateTemp makes a file under a new name in dir, which is pattern with a number in place of its star. As of every file that is made,
// the umask says who may not read it.
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
		observe(Op{Kind: MadeFile, Path: f.Name()}, nil)
		return &File{f}, nil
	}
}

// Name is the path that it was opened by.
func (f *File) Name() string { return f.f.Name() }

// Write adds to the end.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.f.Write(p)
	if n > 0 && Observer != nil {
		Observer(Op{Kind: Wrote, Path: f.Name(), Text: append([]byte(nil), p[:n]...)})
	}
	return n, err
}

// Cut shortens the file.
func (f *File) Cut(size int64) error {
	return observe(Op{Kind: Cut, Path: f.Name(), Size: size}, f.f.Truncate(size))
}

// Size is how long the file is.
func (f *File) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Replaced tells that another file has the name now, or none in a folder that is there: what is written goes where nobody finds it.
func (f *File) Replaced() bool {
	own, err := f.f.Stat()
	named, nerr := os.Stat(f.Name())
	if err != nil || nerr == nil {
		return err == nil && !os.SameFile(own, named)
	}
	_, err = os.Stat(filepath.Dir(f.Name()))
	return os.IsNotExist(nerr) && err == nil
}

// As lets those use the file who may use the one at path that it is to replace. Where there is none, it stays as it was made.
func (f *File) As(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return f.f.Chmod(info.Mode().Perm())
	}
	return nil
}

// Sync makes the text of the file survive.
func (f *File) Sync() error { return observe(Op{Kind: Synced, Path: f.Name()}, f.f.Sync()) }

// Close closes the file, which syncs nothing.
func (f *File) Close() error { return f.f.Close() }

// SyncFolder makes the names in a folder survive, where its file system syncs folders; others, as shares of Windows, have to do without.
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

// MkdirAll makes a folder and those above it, where they are missing. They survive, unless the one above them
// may not be read and so cannot be synced.
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
	} else if err != nil { // by somebody else meanwhile, or it is a file
		return os.MkdirAll(dir, 0o755)
	}
	observe(Op{Kind: MadeFolder, Path: dir}, nil)
	if err := SyncFolder(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// Rename gives a file or a folder another name, in place of a file that has it.
func Rename(from, to string) error {
	return observe(Op{Kind: Renamed, Path: from, To: to}, os.Rename(from, to))
}

// Remove removes a file or an empty folder.
func Remove(path string) error { return observe(Op{Kind: Removed, Path: path}, os.Remove(path)) }

// RemoveAll removes a file, or a folder with all that is in it; there need not be any. What a link leads to stays.
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
