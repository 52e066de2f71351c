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

// Tensor is a tensor as its file holds it. Bytes are the mapping itself: they must not be written, and
// not be read after Close.
type Tensor struct {
	Name, File string
	Encoding   kernels.Encoding
	Shape      []int
	Bytes      []byte // little endian, row-major
}

// Len is the number of elements.
func (t Tensor) Len() int { return len(t.Bytes) / t.Encoding.Size() }

// File is one mapped safetensors file.
type File struct {
	path     string
	data     []byte // the whole file
	mapped   bool
	size     int // of the header
	entries  map[string]entry
	names    []string
	metadata map[string]string
	made     map[string]Made // those whose bytes are not in the data
}

// Open maps the file at path and checks its header.
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

// newFile is a file of size bytes, of which data has the header at the least, wherever they come from.
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

// Path is where the file was opened.
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

// Bytes gives a tensor of U8, whose meaning its reader knows, and its shape.
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

// Other is a tensor that can be no weight: of integers, truth values or such, as models keep positions and masks in. Nobody here reads
// its numbers; what is made of a model takes it along.
type Other struct {
	Name  string
	DType safetensors.DType
	Shape []int
	Bytes []byte // of the mapping, as those of a Tensor
}

// Other gives a tensor that can be no weight. ok is false of one that can, and of one that is missing.
func (f *File) Other(name string) (o Other, ok bool) {
	e, ok := f.entries[name]
	if _, weight := encodings[e.dtype]; !ok || weight {
		return o, false
	}
	return Other{Name: name, DType: e.dtype, Shape: e.shape, Bytes: f.bytes(e)}, true
}

// bytes are those of an entry in the mapping.
func (f *File) bytes(e entry) []byte { return f.data[f.size+e.from : f.size+e.to : f.size+e.to] }

// Tensor gives the tensor of that name. It is an input error if it is missing, is not encoded as
// BF16, F16 or F32, or, where a shape is given, has another one.
func (f *File) Tensor(name string, shape ...int) (Tensor, error) {
	e, t, err := f.describe(name, shape)
	if err != nil {
		return Tensor{}, err
	}
	t.Bytes, err = f.make(e)
	return t, err
}

// describe is the tensor without its bytes.
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

// Release lets the pages of a tensor go: they take no memory until they are touched again.
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

// drop lets the pages between two offsets of a mapping go.
func drop(data []byte, from, to int) {
	// Only whole pages: those at the edges hold neighbours too.
	page := os.Getpagesize()
	from = (from + page - 1) / page * page
	to = to / page * page
	if from < to {
		// Advice that is not taken costs memory and nothing else.
		_ = unix.Madvise(data[from:to], unix.MADV_DONTNEED)
	}
}

// Close gives the mapping back.
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

// mapFile maps the whole of a regular file for reading, as private: some file systems map nothing that is shared. A file without bytes
// gives none.
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
