// Package openfile opens files that a user names. A pipe that nobody writes to is one without an end, whoever opens it, and is not waited
// for, which would be for good; one that somebody writes to, as a shell's <(command), is read as any file. It knows nothing of what is in
// files.
package openfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// errNobody is what is wrong with a pipe without a writer.
var errNobody = errors.New("a pipe that nothing writes to; name a file")

// Open is os.Open that waits for nobody. What is read of a pipe without a writer is its end.
func Open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) }

// Read is os.ReadFile that waits for nobody, and refuses a pipe that nothing was written to.
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
