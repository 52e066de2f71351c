package tensorfile

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nlpodyssey/safetensors"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Source is a tensor to be written. Its numbers are computed when it is written.
type Source struct {
	Name     string
	Encoding kernels.Encoding
	Plain    bool // U8 bytes, which are not numbers of an Encoding
	Shape    []int

	other *safetensors.DType // the type of an Other
	// Write writes exactly the bytes that Encoding and Shape require.
	Write func(io.Writer) error
}

// FromTensor is a copy of t, byte for byte.
func FromTensor(t Tensor) Source {
	return Source{Name: t.Name, Encoding: t.Encoding, Shape: t.Shape, Write: func(w io.Writer) error {
		_, err := w.Write(t.Bytes)
		return err
	}}
}

// FromOther is a copy of a tensor that cannot be a weight.
func FromOther(o Other) Source {
	s := FromBytes(o.Name, o.Bytes, o.Shape...)
	s.other = &o.DType
	return s
}

// FromBytes is a U8 tensor of these bytes.
func FromBytes(name string, bytes []byte, shape ...int) Source {
	return Source{Name: name, Plain: true, Shape: shape, Write: func(w io.Writer) error {
		_, err := w.Write(bytes)
		return err
	}}
}

// FromFloat32s is an F32 tensor of these values.
func FromFloat32s(name string, values []float32, shape ...int) Source {
	return Source{Name: name, Encoding: kernels.EncodedF32, Shape: shape, Write: func(w io.Writer) error {
		return WriteFloat32s(w, values)
	}}
}

// ContextWriter is w, failing with the context's error once ctx ends, even in the middle of a tensor: so writing a model can be
// interrupted.
func ContextWriter(ctx context.Context, w io.Writer) io.Writer { return cancellableWriter{ctx, w} }

type cancellableWriter struct {
	ctx context.Context
	io.Writer
}

func (u cancellableWriter) Write(p []byte) (n int, err error) {
	for err = u.ctx.Err(); err == nil && n < len(p); err = cmp.Or(err, u.ctx.Err()) {
		var wrote int
		wrote, err = u.Writer.Write(p[n:min(n+1<<24, len(p))])
		n += wrote
	}
	return n, err
}

// WriteFloat32s writes values as an F32 tensor.
func WriteFloat32s(w io.Writer, values []float32) error {
	var block [16 << 10]byte
	for len(values) > 0 {
		n := min(len(values), len(block)/4)
		for i, x := range values[:n] {
			binary.LittleEndian.PutUint32(block[4*i:], math.Float32bits(x))
		}
		if _, err := w.Write(block[:4*n]); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// Write writes one file atomically, in constant memory. The same tensors and metadata give the same bytes, whatever their
// order.
func Write(path string, sources []Source, metadata map[string]string) error {
	sources = arrange(sources)
	head, err := encodeHeader(sources, metadata)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.Result(path, func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		for _, s := range sources {
			c := counter{w: w}
			if err := s.Write(&c); err != nil {
				return fmt.Errorf("tensor %q: %w", s.Name, err)
			}
			if c.n != s.size() {
				return fmt.Errorf("tensor %q: %d bytes were given, its shape %v asks for %d", s.Name, c.n, s.Shape, s.size())
			}
		}
		return nil
	})
}

// shardLimit is the size from which on Hugging Face splits models.
const shardLimit = 5_000_000_000

// WriteModel writes a model's weights to the folder dir, which must not have any yet: one file, or above 5 GB, shards and their index.
// Tensors are assigned to shards in the given order. The index is written last, as shards are not a model without it.
func WriteModel(dir string, sources []Source, metadata map[string]string) error {
	return writeModel(dir, sources, metadata, shardLimit)
}

func writeModel(dir string, sources []Source, metadata map[string]string, limit int64) error {
	for _, name := range []string{SingleName, IndexName} {
		if exists(filepath.Join(dir, name)) {
			return badinput.Errorf("%s: it holds %s already; choose a folder without a model", dir, name)
		}
	}
	shards, total := split(sources, limit)
	if len(shards) == 1 {
		return Write(filepath.Join(dir, SingleName), sources, metadata)
	}
	weightMap := make(map[string]string, len(sources))
	for i, shard := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		if err := Write(filepath.Join(dir, name), shard, metadata); err != nil {
			return err
		}
		for _, s := range shard {
			weightMap[s.Name] = name
		}
	}
	index, err := json.MarshalIndent(map[string]any{
		"metadata":   map[string]int64{"total_size": total},
		"weight_map": weightMap,
	}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, IndexName), append(index, '\n'))
}

// split divides sources into runs of at most limit bytes, or a single larger tensor.
func split(sources []Source, limit int64) (shards [][]Source, total int64) {
	from, size := 0, int64(0)
	for i, s := range sources {
		if size > 0 && size+s.size() > limit {
			shards = append(shards, sources[from:i])
			from, size = i, 0
		}
		size += s.size()
		total += s.size()
	}
	return append(shards, sources[from:]), total
}

// arrange sorts tensors as the reference writer does: the widest alignment first (I64, F32, BF16, F16, U8), then by name.
func arrange(sources []Source) []Source {
	return slices.SortedFunc(slices.Values(sources), func(a, b Source) int {
		return cmp.Or(cmp.Compare(b.dtype(), a.dtype()), strings.Compare(a.Name, b.Name))
	})
}

// dtype is the header's name of the encoding.
func (s Source) dtype() safetensors.DType {
	switch {
	case s.other != nil:
		return *s.other
	case s.Plain:
		return safetensors.U8
	}
	return dtypes[s.Encoding]
}

func (s Source) size() int64 {
	n := int64(s.dtype().Size())
	for _, d := range s.Shape {
		n *= int64(d)
	}
	return n
}

// encodeHeader is the length and the JSON of the header, padded with spaces so that the data starts at a multiple of
// eight. Keys are in the order of the data.
func encodeHeader(sources []Source, metadata map[string]string) ([]byte, error) {
	b := make([]byte, 8, 1<<12)
	b = append(b, '{')
	if len(metadata) > 0 {
		b = append(b, `"__metadata__":{`...)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			b = append(comma(b, i), quote(key)...)
			b = append(append(b, ':'), quote(metadata[key])...)
		}
		b = append(b, '}')
	}
	at, seen := int64(0), map[string]bool{"__metadata__": true}
	for i, s := range sources {
		if seen[s.Name] {
			return nil, fmt.Errorf("tensor name %q cannot be used twice", s.Name)
		}
		seen[s.Name] = true
		b = comma(b, i+len(metadata))
		b = fmt.Appendf(b, `%s:{"dtype":"%s","shape":[`, quote(s.Name), s.dtype())
		for j, d := range s.Shape {
			b = fmt.Appendf(comma(b, j), "%d", d)
		}
		b = fmt.Appendf(b, `],"data_offsets":[%d,%d]}`, at, at+s.size())
		at += s.size()
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b)-8 > maxHeader {
		return nil, fmt.Errorf("the header would have %d bytes, at most %d are allowed", len(b)-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return b, nil
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// quote is s as a JSON string; marshalling a string cannot fail.
func quote(s string) []byte {
	b, _ := json.Marshal(s)
	return b
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
