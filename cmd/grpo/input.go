package main

import (
	"io"
	"os"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// tokenLine is a sequence as verbs read it.
type tokenLine struct {
	Tokens jsonl.List[int32] `json:"tokens"`
}

// openInput opens a file, or standard input for "-".
func openInput(path string, stdin io.Reader) (in io.ReadCloser, name string, err error) {
	if path == "-" {
		return io.NopCloser(stdin), "standard input", nil
	}
	f, err := openFile(path)
	return f, path, err
}

// openFile opens a file to read from; a directory is none.
func openFile(path string) (*os.File, error) {
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

// eachInput reads JSON Lines from there.
func eachInput[T any](path string, stdin io.Reader, fn func(line int, v T) error) error {
	in, name, err := openInput(path, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	return jsonl.Each(in, name, fn)
}
