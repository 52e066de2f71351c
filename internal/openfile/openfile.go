// Package openfile opens files that a user names. Opening a named pipe without a writer would block forever; here it is read as empty.
// A pipe with a writer, such as a shell's <(command), is read like a file.
package openfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// errNobody is the error of a pipe without a writer.
var errNobody = errors.New("a pipe that nothing writes to; name a file")

// Open is os.Open without blocking. A pipe without a writer is read as empty.
func Open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) }

// Read is os.ReadFile without blocking. It refuses a pipe to which nothing was written.
func Read(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if info, serr := f.Stat(); err == nil && len(text) == 0 && serr == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		err = &fs.PathError{Op: "read", Path: path, Err: errNobody}
	}
	return text, err
}
