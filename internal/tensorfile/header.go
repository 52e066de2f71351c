package tensorfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strconv"

	"github.com/nlpodyssey/safetensors"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// maxHeader is the limit of the format.
const maxHeader = 100_000_000

// entry is a tensor in the header.
type entry struct {
	name     string
	dtype    safetensors.DType
	shape    []int
	from, to int // offsets in the data after the header
}

// header is a checked header: the entries are consecutive and fill the data.
type header struct {
	entries  []entry // in the order of the data
	metadata map[string]string
	size     int // bytes before the data
}

// parseHeader parses and checks the header of a file of size bytes; data is its beginning.
func parseHeader(path string, data []byte, size int) (header, error) {
	if size < 8 {
		return header{}, badinput.Errorf("%s: the file has %d bytes, a safetensors file has at least 8", path, size)
	}
	if bytes.HasPrefix(data, []byte("version https://git-lfs")) {
		return header{}, badinput.Errorf("%s: it is a pointer of Git LFS, not the weights; type git lfs pull in its folder", path)
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeader {
		return header{}, badinput.Errorf(
			"%s: the header claims %d bytes, at most %d are allowed: this is not a safetensors file, or it is damaged", path, n, maxHeader)
	}
	if n > uint64(size-8) {
		return header{}, badinput.Errorf("%s: the header claims %d bytes, the file holds %d after its first 8: the file is truncated",
			path, n, size-8)
	}
	h := header{size: 8 + int(n)}
	text := data[8:h.size]
	if len(text) == 0 || text[0] != '{' {
		return header{}, badinput.Errorf("%s: the header does not start with {: this is not a safetensors file, or it is damaged", path)
	}
	if err := scanJSON(text); err != nil {
		return header{}, badinput.Errorf("%s: the header is not usable JSON: %w", path, err)
	}
	var m safetensors.Metadata
	if err := json.Unmarshal(text, &m); err != nil {
		if name, encoding := unknown(text); name != "" {
			return header{}, badinput.Errorf("%s: tensor %q is encoded as %s, expected BF16, F16 or F32", path, name, encoding)
		}
		return header{}, badinput.Errorf("%s: the header is not a safetensors header: %w", path, err)
	}
	h.metadata = m.Metadata()
	var err error
	if h.entries, err = placeEntries(m.Tensors(), size-h.size); err != nil {
		return header{}, badinput.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// unknown finds the first tensor with an unknown encoding, such as an eight-bit one.
func unknown(text []byte) (name, encoding string) {
	var tensors map[string]json.RawMessage
	_ = json.Unmarshal(text, &tensors) // other errors are reported elsewhere
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		var of struct {
			DType string `json:"dtype"`
		}
		if json.Unmarshal(tensors[name], &of) != nil || of.DType == "" || name == "__metadata__" {
			continue
		}
		if _, err := safetensors.ParseDType(of.DType); err != nil {
			return name, of.DType
		}
	}
	return "", ""
}

// placeEntries sorts tensors by their offsets, and checks that each has as many bytes as its shape requires, and that
// they fill size bytes without gap or overlap.
func placeEntries(tensors map[string]*safetensors.TensorInfo, size int) ([]entry, error) {
	names := make([]string, 0, len(tensors))
	for name := range tensors {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := tensors[names[i]].DataOffsets, tensors[names[j]].DataOffsets
		if a != b {
			return a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
		}
		return names[i] < names[j]
	})
	entries := make([]entry, 0, len(names))
	at, before := uint64(0), "the header"
	for _, name := range names {
		t := tensors[name]
		from, to := t.DataOffsets[0], t.DataOffsets[1]
		switch {
		case to < from:
			return nil, fmt.Errorf("tensor %q: it ends at offset %d, before its start at %d", name, to, from)
		case to > uint64(size):
			return nil, fmt.Errorf("tensor %q: it ends at offset %d, the file holds %d bytes of data: the file is truncated or damaged",
				name, to, size)
		case from < at:
			return nil, fmt.Errorf("tensor %q: it starts at offset %d, inside %s which ends at %d", name, from, before, at)
		case from > at:
			return nil, fmt.Errorf("tensor %q: it starts at offset %d, expected %d where %s ends", name, from, at, before)
		}
		want, ok := byteLen(t.DType, t.Shape)
		if !ok || want != to-from {
			return nil, fmt.Errorf("tensor %q: it has %d bytes, which does not fit %s of shape %v", name, to-from, t.DType, t.Shape)
		}
		entries = append(entries, entry{name: name, dtype: t.DType, shape: ints(t.Shape), from: int(from), to: int(to)})
		at, before = to, strconv.Quote(name)
	}
	if at != uint64(size) {
		return nil, fmt.Errorf("the tensors end at offset %d, the file holds %d bytes of data: it is damaged", at, size)
	}
	return entries, nil
}

// byteLen is the size of a tensor; false if it, or a dimension, overflows an int.
func byteLen(d safetensors.DType, shape []uint64) (uint64, bool) {
	n := d.Size()
	for _, s := range shape {
		hi, lo := bits.Mul64(n, s)
		if hi != 0 || lo > math.MaxInt || s > math.MaxInt {
			return 0, false
		}
		n = lo
	}
	return n, true
}

func ints(shape []uint64) []int {
	out := make([]int, len(shape))
	for i, s := range shape {
		out[i] = int(s)
	}
	return out
}

// Limits on nesting and on the length of lists, which no valid header exceeds.
const (
	maxDepth = 8
	maxList  = 64
)

// scanJSON checks JSON without building it, and refuses what would be lost or use much memory when it is built: duplicate
// keys, deep nesting, long lists.
func scanJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := scanValue(d, 0); err != nil {
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("it ends too early")
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is text after the JSON value")
	}
	return nil
}

func scanValue(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	switch t {
	case json.Delim('{'):
		seen := make(map[json.Token]bool)
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if seen[key] {
				return fmt.Errorf("%q is there twice", key)
			}
			seen[key] = true
			if err := scanValue(d, depth+1); err != nil {
				return err
			}
		}
	case json.Delim('['):
		for n := 0; d.More(); n++ {
			if n == maxList {
				return fmt.Errorf("a list has more than %d values", maxList)
			}
			if err := scanValue(d, depth+1); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = d.Token() // the closing delimiter
	return err
}
