package gguf

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// File is an open file.
type File struct {
	Path    string
	pairs   map[string]any
	tensors map[string]tensorPlace
	order   []string // names of the tensors
	mapping *tensorfile.Mapping
}

// tensorPlace is where a tensor is in the file.
type tensorPlace struct {
	kind     Type
	shape    []int
	from, to int
}

// Limits on a header. The largest models have some ten thousand tensors.
const (
	mostPairs   = 1 << 16
	mostTensors = 1 << 20
	mostSides   = 4
)

// Open maps a file and checks its header.
func Open(path string) (*File, error) {
	m, err := tensorfile.Map(path)
	if err != nil {
		return nil, err
	}
	f, err := read(m.Bytes)
	if err != nil {
		return nil, errors.Join(badinput.Errorf("%s: %w", path, err), m.Close())
	}
	f.Path, f.mapping = path, m
	return f, nil
}

// Close unmaps the file. What Set returned must not be used any more.
func (f *File) Close() error { return f.mapping.Close() }

// read parses and checks the bytes of a file.
func read(data []byte) (*File, error) {
	c := &cursor{data: data}
	if string(c.take(4)) != magic {
		return nil, badinput.Errorf("it does not begin with %s: this is not a GGUF file, or it is damaged", magic)
	}
	if v := c.number(4); v != version {
		return nil, badinput.Errorf("found version %d of the format, expected %d", v, version)
	}
	tensors, pairs := c.number(8), c.number(8)
	if tensors > mostTensors || pairs > mostPairs {
		return nil, badinput.Errorf("it claims %d tensors and %d keys, expected at most %d and %d", tensors, pairs, mostTensors, mostPairs)
	}
	f := &File{pairs: map[string]any{}, tensors: map[string]tensorPlace{}}
	for range pairs {
		key := c.text()
		if _, there := f.pairs[key]; there {
			c.fail("key %q is there twice", key)
		}
		if f.pairs[key] = c.value(); c.err != nil {
			return nil, c.err
		}
	}
	if a, ok := f.pairs["general.alignment"]; ok && a != int64(alignment) {
		return nil, badinput.Errorf("general.alignment: found %v, expected %d", a, alignment)
	}
	offsets := map[string]uint64{}
	for range tensors {
		name, p, offset := c.tensor()
		if _, there := f.tensors[name]; there {
			c.fail("tensor %q is there twice", name)
		}
		if c.err != nil {
			return nil, c.err
		}
		f.tensors[name], offsets[name] = p, offset
		f.order = append(f.order, name)
	}
	return f, f.settle(room(c.at), len(data), offsets)
}

// tensor reads an entry of the list of tensors.
func (c *cursor) tensor() (name string, p tensorPlace, offset uint64) {
	name = c.text()
	sides := c.number(4)
	if sides < 1 || sides > mostSides {
		c.fail("tensor %q: found %d dimensions, expected 1 to %d", name, sides, mostSides)
		return name, p, 0
	}
	p.shape = make([]int, sides)
	for i := range p.shape {
		d := c.number(8)
		if d > math.MaxInt32 {
			c.fail("tensor %q: found a side of %d", name, d)
		}
		p.shape[len(p.shape)-1-i] = int(d & math.MaxInt32)
	}
	p.kind = Type(c.number(4))
	if _, known := kinds[p.kind]; !known {
		c.fail("tensor %q: found type %d, supported: %q", name, p.kind, Types())
	}
	return name, p, c.number(8)
}

// settle finds the bytes of each tensor: they follow one another to the end of the file.
func (f *File) settle(begin, end int, offsets map[string]uint64) error {
	at := begin
	for _, name := range f.order {
		p := f.tensors[name]
		size, ok := p.kind.size(p.shape)
		switch {
		case !ok:
			return badinput.Errorf("tensor %q: no %s has shape %v", name, p.kind, p.shape)
		case offsets[name] != uint64(at-begin):
			return badinput.Errorf("tensor %q: it begins at offset %d, expected %d where the one before it ends", name, offsets[name], at-begin)
		case at > end || size > end-at:
			return badinput.Errorf("tensor %q: it ends beyond the file, which is truncated or damaged", name)
		}
		p.from, p.to = at, at+size
		f.tensors[name] = p
		at += room(size)
	}
	if at != end {
		return badinput.Errorf("the tensors end at byte %d, the file has %d bytes: it is truncated or damaged", at, end)
	}
	return nil
}

// text is the value of a required key.
func (f *File) text(key string) (string, error) {
	s, ok := f.pairs[key].(string)
	if !ok {
		return "", f.missing(key, "a text")
	}
	return s, nil
}

// number is the value of a key, which is required unless there is a default.
func (f *File) number(key string, otherwise ...float64) (float64, error) {
	switch x := f.pairs[key].(type) {
	case int64:
		return float64(x), nil
	case float64:
		return x, nil
	case nil:
		if len(otherwise) > 0 {
			return otherwise[0], nil
		}
	}
	return 0, f.missing(key, "a number")
}

func (f *File) missing(key, expected string) error {
	found := "nothing"
	if v, ok := f.pairs[key]; ok {
		found = fmt.Sprintf("%.40v", v)
	}
	return badinput.Errorf("%s: key %s: found %s, expected %s", f.Path, key, found, expected)
}

// has reports whether there is a tensor of that name.
func (f *File) has(name string) bool { _, ok := f.tensors[name]; return ok }
