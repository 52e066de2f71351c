package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
)

// Tensor is a tensor to be written.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int // rows first, as in Hugging Face models
	// Write writes exactly the bytes that type and shape require.
	Write func(io.Writer) error
}

const (
	magic     = "GGUF"
	version   = 3
	alignment = 32 // of the tensors' bytes, unless the header says otherwise
)

// Write writes a file atomically, in constant memory. Equal pairs and tensors give equal bytes.
func Write(path string, pairs []Pair, tensors []Tensor) error {
	head, err := header(pairs, tensors)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		if _, err := w.Write(padded(head)); err != nil {
			return err
		}
		for _, t := range tensors {
			want, _ := t.Type.size(t.Shape)
			c := counter{w: w}
			if err := t.Write(&c); err != nil {
				return fmt.Errorf("tensor %q: %w", t.Name, err)
			}
			if c.n != want {
				return fmt.Errorf("tensor %q: %d bytes were given, its shape %v asks for %d", t.Name, c.n, t.Shape, want)
			}
			if _, err := w.Write(make([]byte, room(want)-want)); err != nil {
				return err
			}
		}
		return nil
	})
}

// header is everything before the bytes of the tensors.
func header(pairs []Pair, tensors []Tensor) (b []byte, err error) {
	le := binary.LittleEndian
	b = le.AppendUint32([]byte(magic), version)
	b = le.AppendUint64(b, uint64(len(tensors)))
	b = le.AppendUint64(b, uint64(len(pairs)))
	for _, p := range pairs {
		if b, err = appendPair(b, p); err != nil {
			return nil, err
		}
	}
	at := 0
	for _, t := range tensors {
		size, ok := t.Type.size(t.Shape)
		if !ok {
			return nil, fmt.Errorf("tensor %q: no %s has shape %v", t.Name, t.Type, t.Shape)
		}
		b = appendText(b, t.Name)
		b = le.AppendUint32(b, uint32(len(t.Shape)))
		for _, d := range slices.Backward(t.Shape) {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint32(b, uint32(t.Type))
		b = le.AppendUint64(b, uint64(at))
		at += room(size)
	}
	return b, nil
}

// room is n rounded up to the alignment.
func room(n int) int { return (n + alignment - 1) / alignment * alignment }

func padded(b []byte) []byte { return append(b, make([]byte, room(len(b))-len(b))...) }

// counter counts the bytes written through it.
type counter struct {
	w io.Writer
	n int
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += n
	return n, err
}
