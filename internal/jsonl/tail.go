package jsonl

import (
	"bytes"
	"io"
	"os"
)

// Tail returns the complete lines in the last bytes of a file that may still be written: a partial first or last line is left out. It
// reads at most most bytes.
func Tail(path string, most int64) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text := make([]byte, min(most, info.Size()))
	n, err := f.ReadAt(text, info.Size()-int64(len(text)))
	if err != nil && err != io.EOF { // it may have been truncated
		return nil, err
	}
	text = text[:n]
	if info.Size() > most {
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	if len(text) == 0 {
		return nil, nil
	}
	return bytes.Split(text[:len(text)-1], []byte("\n")), nil
}
