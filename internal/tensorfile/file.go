package tensorfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/nlpodyssey/safetensors"
	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Tensor is a tensor in its file. Bytes is the mapping itself: it must not be written, and not be read after Close.
type Tensor struct {
	Name, File string
	Encoding   kernels.Encoding
	Shape      []int
	Bytes      []byte // little endian, row-major
}

// Len is the number of elements.
func (t Tensor) Len() int { return len(t.Bytes) / t.Encoding.Size() }

// File is a memory-mapped safetensors file.
type File struct {
	path     string
	data     []byte // the whole file
	mapped   bool
	size     int // of the header
	entries  map[string]entry
	names    []string
	metadata map[string]string
	made     map[string]Computed // tensors whose bytes are computed, not mapped
}

// Open maps a file and checks its header.
func Open(path string) (*File, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	f, err := newFile(path, data, len(data))
	if err != nil {
		return nil, errors.Join(err, unmap(data))
	}
	f.mapped = true
	return f, nil
}

// newFile makes a File of size bytes. data begins with at least the header.
func newFile(path string, data []byte, size int) (*File, error) {
	h, err := parseHeader(path, data, size)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, data: data, size: h.size, metadata: h.metadata, entries: make(map[string]entry, len(h.entries))}
	for _, e := range h.entries {
		f.entries[e.name] = e
		f.names = append(f.names, e.name)
	}
	slices.Sort(f.names)
	return f, nil
}

// Path is the path that was opened.
func (f *File) Path() string { return f.path }

// Names are the names of all tensors, sorted.
func (f *File) Names() []string { return f.names }

// Metadata are the free-form strings of the header; nil if there are none.
func (f *File) Metadata() map[string]string { return f.metadata }

// Has reports whether there is a tensor of that name.
func (f *File) Has(name string) bool {
	_, ok := f.entries[name]
	return ok
}

// Bytes returns a U8 tensor and its shape, for a caller that knows its meaning.
func (f *File) Bytes(name string) ([]byte, []int, error) {
	e, ok := f.entries[name]
	switch {
	case !ok:
		return nil, nil, badinput.Errorf("%s: tensor %q is missing", f.path, name)
	case e.dtype != safetensors.U8:
		return nil, nil, badinput.Errorf("%s: tensor %q is encoded as %s, expected U8", f.path, name, e.dtype)
	}
	return f.bytes(e), e.shape, nil
}

// Other is a tensor that cannot be a weight: of integers or booleans, such as positions and masks. It is only copied along with a
// model, never interpreted.
type Other struct {
	Name  string
	DType safetensors.DType
	Shape []int
	Bytes []byte // in the mapping, as in Tensor
}

// Other returns a tensor that cannot be a weight; ok is false for one that can, and for a missing one.
func (f *File) Other(name string) (o Other, ok bool) {
	e, ok := f.entries[name]
	if _, weight := encodings[e.dtype]; !ok || weight {
		return o, false
	}
	return Other{Name: name, DType: e.dtype, Shape: e.shape, Bytes: f.bytes(e)}, true
}

// bytes are the bytes of an entry in the mapping.
func (f *File) bytes(e entry) []byte { return f.data[f.size+e.from : f.size+e.to : f.size+e.to] }

// Tensor returns the tensor of that name. It is an input error if it is missing, is not BF16, F16 or F32, or has another
// shape than the given one, if any.
func (f *File) Tensor(name string, shape ...int) (Tensor, error) {
	e, t, err := f.describe(name, shape)
	if err != nil {
		return Tensor{}, err
	}
	t.Bytes, err = f.make(e)
	return t, err
}

// describe returns the tensor without its bytes.
func (f *File) describe(name string, shape []int) (e entry, t Tensor, err error) {
	e, ok := f.entries[name]
	if !ok {
		return e, t, badinput.Errorf("%s: tensor %q is missing", f.path, name)
	}
	enc, ok := encodings[e.dtype]
	if !ok {
		return e, t, badinput.Errorf("%s: tensor %q is encoded as %s, expected BF16, F16 or F32", f.path, name, e.dtype)
	}
	if len(shape) > 0 && !slices.Equal(shape, e.shape) {
		return e, t, badinput.Errorf("%s: tensor %q has shape %v, expected %v", f.path, name, e.shape, shape)
	}
	return e, Tensor{Name: name, File: f.path, Encoding: enc, Shape: e.shape}, nil
}

// Release drops the pages of a tensor: they take no memory until they are accessed again.
func (f *File) Release(name string) {
	if m, ok := f.made[name]; ok && m.Release != nil {
		m.Release()
	}
	e, ok := f.entries[name]
	if !ok || !f.mapped {
		return
	}
	drop(f.data, f.size+e.from, f.size+e.to)
}

// drop drops the pages between two offsets of a mapping.
func drop(data []byte, from, to int) {
	// Whole pages only: those at the edges belong to neighbours too.
	page := os.Getpagesize()
	from = (from + page - 1) / page * page
	to = to / page * page
	if from < to {
		// An error only costs memory.
		_ = unix.Madvise(data[from:to], unix.MADV_DONTNEED)
	}
}

// Close unmaps the file.
func (f *File) Close() error {
	if !f.mapped {
		return nil
	}
	f.mapped = false
	return unmap(f.data)
}

var encodings = map[safetensors.DType]kernels.Encoding{
	safetensors.BF16: kernels.EncodedBF16,
	safetensors.F16:  kernels.EncodedF16,
	safetensors.F32:  kernels.EncodedF32,
}

// openRegular opens a regular file for reading.
func openRegular(path string) (f *os.File, size int64, err error) {
	f, err = openfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, badinput.Errorf("%s: there is no such file", path)
	}
	if err != nil {
		return nil, 0, badinput.Errorf("%w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = badinput.Errorf("%s: it is a %s, expected a file", path, kind(info.Mode()))
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// mapFile maps a regular file for reading. The mapping is private, as some file systems do not support shared ones. An empty file has
// no mapping.
func mapFile(path string) ([]byte, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size == 0 {
		return nil, nil
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, nil
}

func kind(m fs.FileMode) string {
	if m.IsDir() {
		return "folder"
	}
	return "special file"
}

func unmap(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return unix.Munmap(data)
}
