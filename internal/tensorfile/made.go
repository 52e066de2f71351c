package tensorfile

import (
	"maps"
	"slices"

	"github.com/nlpodyssey/safetensors"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Computed is a tensor of a file in another format. Its bytes are computed on each access.
type Computed struct {
	Name     string
	Encoding kernels.Encoding
	Shape    []int
	Bytes    func() ([]byte, error)
	Release  func() // called by File.Release; may be nil
}

// NewComputedSet is the set of such tensors of the file at path.
func NewComputedSet(path string, tensors []Computed) (*Set, error) {
	f := &File{path: path, entries: map[string]entry{}, made: map[string]Computed{}}
	for _, m := range tensors {
		if f.Has(m.Name) {
			return nil, badinput.Errorf("%s: tensor %q is there twice", path, m.Name)
		}
		f.made[m.Name] = m
		f.entries[m.Name] = entry{name: m.Name, dtype: dtypes[m.Encoding], shape: m.Shape}
	}
	f.names = slices.Sorted(maps.Keys(f.made))
	s := &Set{root: path, files: []*File{f}, home: make(map[string]*File, len(f.names)), names: f.names}
	for _, name := range f.names {
		s.home[name] = f
	}
	return s, nil
}

var dtypes = map[kernels.Encoding]safetensors.DType{
	kernels.EncodedBF16: safetensors.BF16, kernels.EncodedF16: safetensors.F16, kernels.EncodedF32: safetensors.F32,
}

// make returns the bytes of an entry, mapped or computed.
func (f *File) make(e entry) ([]byte, error) {
	m, ok := f.made[e.name]
	if !ok {
		return f.bytes(e), nil
	}
	bytes, err := m.Bytes()
	if err != nil {
		return nil, badinput.Errorf("%s: tensor %q: %w", f.path, e.name, err)
	}
	want := m.Encoding.Size()
	for _, n := range m.Shape {
		want *= n
	}
	if len(bytes) != want {
		return nil, badinput.Errorf("%s: tensor %q has %d bytes, its shape %v asks for %d", f.path, e.name, len(bytes), m.Shape, want)
	}
	return bytes, nil
}

// Mapping is a memory-mapped file.
type Mapping struct{ Bytes []byte }

// Map maps a regular file. Its bytes must not be written.
func Map(path string) (*Mapping, error) {
	data, err := mapFile(path)
	return &Mapping{data}, err
}

// Drop drops the pages between two offsets: they take no memory until they are accessed again.
func (m *Mapping) Drop(from, to int) { drop(m.Bytes, from, to) }

// Close unmaps the file.
func (m *Mapping) Close() error {
	data := m.Bytes
	m.Bytes = nil
	return unmap(data)
}
