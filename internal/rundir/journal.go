package rundir

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// Journal is a log of dated lines for people. Unlike the logs of a run it is never truncated: it tells what happened,
// interruptions included. Lines that are said before Open are written by it.
type Journal struct {
	out   *os.File // nil until open
	early []byte
	err   error // the first write error
}

// Open opens the file, unless it is open.
func (j *Journal) Open(path string) (err error) {
	if j.out != nil {
		return nil
	}
	if j.out, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
		_, j.err = j.out.Write(j.early)
		j.early = nil
	}
	return err
}

// Say adds a line.
func (j *Journal) Say(format string, args ...any) {
	line := []byte(time.Now().UTC().Format(time.RFC3339) + " " + display.Visible(fmt.Sprintf(format, args...)) + "\n")
	if j.out == nil {
		j.early = append(j.early, line...)
		return
	}
	_, err := j.out.Write(line)
	if j.err == nil {
		j.err = err
	}
}

// SayPath adds a line about a file or a folder.
func (j *Journal) SayPath(what, path string) { j.Say("%s %s", what, display.Line(path)) }

// Close closes the file, and returns the first error of writing to it.
func (j *Journal) Close() error {
	if j.out == nil {
		return nil
	}
	return errors.Join(j.err, j.out.Close())
}
