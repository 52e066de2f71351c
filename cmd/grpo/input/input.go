// Package input opens the input of verbs.
package input

import (
	"context"
	"io"
	"os"

	"github.com/seed-7879b91d/grpo/data/dataset/foreign"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// Open opens a file, or standard input for "-". A file that begins as no text in UTF-8 does is refused, with how to make that of it.
func Open(path string, stdin io.Reader) (in io.ReadCloser, name string, err error) {
	if path == "-" {
		return io.NopCloser(stdin), "standard input", nil
	}
	f, err := File(path)
	if err != nil {
		return nil, path, err
	}
	begin := make([]byte, 64)
	n, _ := f.ReadAt(begin, 0) // nothing of a pipe
	if err := foreign.CheckContent(begin[:n], path); err != nil {
		f.Close()
		return nil, path, err
	}
	return f, path, nil
}

// File opens a file for reading; a directory is an error.
func File(path string) (*os.File, error) {
	f, err := openfile.Open(path)
	if err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, badinput.Errorf("%s: found a directory, expected a file of JSON Lines in it", path)
	}
	return f, nil
}

// ContextReader is in, but a blocked read, as from a pipe or a terminal, ends when ctx does.
func ContextReader(ctx context.Context, in io.Reader) io.Reader { return until{ctx, in} }

type until struct {
	ctx context.Context
	in  io.Reader
}

func (u until) Read(p []byte) (int, error) {
	type came struct {
		n   int
		err error
	}
	text, read := make([]byte, len(p)), make(chan came, 1) // p must not be used after Read has returned
	go func() {
		n, err := u.in.Read(text)
		read <- came{n, err}
	}()
	select {
	case c := <-read:
		return copy(p, text[:c.n]), c.err
	case <-u.ctx.Done():
		return 0, context.Cause(u.ctx)
	}
}

// Each reads JSON Lines from a file, or from standard input for "-".
func Each[T any](path string, stdin io.Reader, fn func(line int, v T) error) error {
	in, name, err := Open(path, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	return jsonl.Each(in, name, fn)
}
