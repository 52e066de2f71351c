package rollouts

import (
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// Each calls fn with the recorded line of each completion of the run in dir, step by step, from both files. An error of
// fn is returned with file and line.
func Each(dir string, fn func(line []byte) error) error {
	plain, packed := open(filepath.Join(dir, PlainFile)), open(filepath.Join(dir, CompressedFile))
	defer plain.stop()
	defer packed.stop()
	for {
		r := plain
		if !plain.more || packed.more && packed.step < plain.step {
			r = packed
		}
		if !r.more {
			return errors.Join(plain.err, packed.err)
		}
		r.refused = fn(r.line)
		if r.advance(); r.err != nil {
			return r.err
		}
	}
}

// reader reads a file line by line.
type reader struct {
	line    []byte
	step    int
	more    bool  // there is a current line
	refused error // the error of fn on the line before
	err     error
	next    func() (struct{}, bool)
	stop    func()
}

func (r *reader) advance() { _, r.more = r.next() }

var errStopped = errors.New("nobody reads on")

// open opens a file; one that does not exist has no lines.
func open(path string) *reader {
	r := &reader{}
	r.next, r.stop = iter.Pull(func(yield func(struct{}) bool) {
		r.err = jsonl.EachComplete(path, func(line []byte) (err error) {
			if r.step, err = stepOf(line); err != nil {
				return err
			}
			if r.line = line; !yield(struct{}{}) {
				return errStopped
			}
			return r.refused
		})
		if errors.Is(r.err, fs.ErrNotExist) {
			r.err = nil
		}
	})
	r.advance()
	return r
}

func stepOf(line []byte) (int, error) {
	var at struct{ Step int }
	err := json.Unmarshal(line, &at)
	return at.Step, err
}
