package rows

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// growing is a file that is appended to.
type growing struct {
	path string
	at   int64 // offset up to which it was read
	line int
}

// lines calls fn with the new lines. A line without a newline is still being written, and is left for later.
func (g *growing) lines(fn func(line []byte) error) error {
	f, err := os.Open(g.path)
	if errors.Is(err, fs.ErrNotExist) && g.at == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < g.at {
		return ErrTruncated
	}
	if _, err := f.Seek(g.at, io.SeekStart); err != nil {
		return err
	}
	for in := bufio.NewReaderSize(f, 1<<16); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		g.at, g.line = g.at+int64(len(line)), g.line+1
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := fn(line); err != nil {
			return g.refused(err)
		}
	}
}

// refused marks an error about a line; other errors are the sink's.
func (g *growing) refused(err error) error {
	if isJSON(err) {
		return jsonl.DamagedLine(g.path, g.line, err)
	}
	return err
}
