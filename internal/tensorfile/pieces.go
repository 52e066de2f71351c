package tensorfile

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Pieces is a file that is read in pieces, without a mapping. A mapping would take address space of the file's size, which may be
// limited, and remote file systems may take mapped pages away.
type Pieces struct {
	file *File // header only
	from *os.File
	room []byte
}

// OpenPieces opens a file and checks its header.
func OpenPieces(path string) (*Pieces, error) {
	from, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	f, err := readHeader(path, from, size)
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	return &Pieces{file: f, from: from}, nil
}

// readHeader is the file without its data.
func readHeader(path string, from io.ReaderAt, size int64) (*File, error) {
	head := make([]byte, min(8, size))
	if _, err := from.ReadAt(head, 0); err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	if len(head) == 8 {
		if n := binary.LittleEndian.Uint64(head); n <= maxHeader && n <= uint64(size-8) {
			head = append(head, make([]byte, n)...)
			if _, err := from.ReadAt(head, 0); err != nil {
				return nil, badinput.Errorf("%w", err)
			}
		}
	}
	return newFile(path, head, int(size))
}

// Metadata are the free-form strings of the header; nil if there are none.
func (p *Pieces) Metadata() map[string]string { return p.file.metadata }

// Path is the path that was opened.
func (p *Pieces) Path() string { return p.file.path }

// Names are the names of all tensors, sorted.
func (p *Pieces) Names() []string { return p.file.names }

// Check checks a tensor as File.Tensor does, without reading its numbers.
func (p *Pieces) Check(name string, shape ...int) error {
	_, _, err := p.file.describe(name, shape)
	return err
}

// Each calls fn with the pieces of a tensor, at most most elements each, and the index of the first. It checks the tensor as
// File.Tensor does. The next piece overwrites the bytes.
func (p *Pieces) Each(name string, most int, fn func(from int, t Tensor) error, shape ...int) error {
	e, t, err := p.file.describe(name, shape)
	if err != nil {
		return err
	}
	size := t.Encoding.Size()
	p.room = slices.Grow(p.room[:0], min(most*size, e.to-e.from))
	for at := e.from; at < e.to; at += len(t.Bytes) {
		t.Bytes = p.room[:min(most*size, e.to-at)]
		if _, err := p.from.ReadAt(t.Bytes, int64(p.file.size+at)); err != nil {
			return badinput.Errorf("%w", err)
		}
		if err := fn((at-e.from)/size, t); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the file.
func (p *Pieces) Close() error { return p.from.Close() }
