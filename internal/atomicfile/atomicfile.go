// Package atomicfile writes files that appear whole or not at all: a temporary file in the same folder, fsync, rename,
// fsync of the folder.
package atomicfile

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// temporary is the suffix of files that are still being written.
const temporary = ".tmp"

// RemoveStale removes temporary files from dir, which killed writers have left. Nobody may be writing.
func RemoveStale(dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, ".") && strings.HasSuffix(name, temporary) {
			err = errors.Join(err, disk.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// IsTemp reports whether a name is that of a temporary file for file.
func IsTemp(name, file string) bool {
	return strings.HasPrefix(name, "."+file+".") && strings.HasSuffix(name, temporary)
}

// Write replaces the file at path by what fill writes, or leaves it unchanged.
func Write(path string, fill func(io.Writer) error) error {
	f, err := disk.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+temporary)
	if err != nil {
		return reword(path, "", "write", err)
	}
	return write(path, f, fill)
}

// buffers are reused, as a run writes many files that are much smaller than a buffer.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 1<<20) }}

// write is Write through the temporary file f.
func write(path string, f *disk.File, fill func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			f.Close()
			disk.Remove(f.Name())
		}
	}()
	if err = f.CopyMode(path); err != nil { // set permissions before there is content to read
		return err
	}
	w := buffers.Get().(*bufio.Writer)
	w.Reset(f)
	defer func() {
		w.Reset(nil)
		buffers.Put(w)
	}()
	if err = fill(w); err != nil {
		return reword(path, f.Name(), "write", err)
	}
	if err = w.Flush(); err != nil {
		return reword(path, f.Name(), "write", err)
	}
	if err = f.Sync(); err != nil {
		return reword(path, f.Name(), "sync", err)
	}
	if err = f.Close(); err != nil {
		return reword(path, f.Name(), "close", err)
	}
	if err = disk.Rename(f.Name(), path); err != nil {
		if names := (*os.LinkError)(nil); errors.As(err, &names) {
			err = names.Err
		}
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return SyncDir(filepath.Dir(path))
}

// reword rewords an error about a temporary file to name the file that the user knows. temporary "" matches any path.
func reword(path, temporary, doing string, err error) error {
	at := (*fs.PathError)(nil)
	if temporary == "" {
		errors.As(err, &at)
	} else if abs, aerr := filepath.Abs(temporary); aerr == nil {
		at = writing(err, abs)
	}
	if at != nil {
		err = at.Err
	}
	return &fs.PathError{Op: doing, Path: path, Err: err}
}

// WriteJSON writes a value as JSON.
func WriteJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteBytes(path, text)
}

// WriteBytes replaces the file at path with data.
func WriteBytes(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// SyncDir makes renames in dir survive a power cut.
func SyncDir(dir string) error { return disk.SyncFolder(dir) }
