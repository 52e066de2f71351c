package tensorfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// The names of a model's weight files.
const (
	SingleName = "model.safetensors"
	IndexName  = "model.safetensors.index.json"
)

// Set has the tensors of a model, in one file or several.
type Set struct {
	root  string // what to name if a tensor is missing
	files []*File
	home  map[string]*File
	names []string
	until context.Context // nil: no limit
}

// SetContext makes Tensor fail with the context's error once ctx ends, so that loading can be interrupted.
func (s *Set) SetContext(ctx context.Context) { s.until = ctx }

// OpenModel maps the weights of a Hugging Face model: model.safetensors, or the shards that model.safetensors.index.json
// lists.
func OpenModel(dir string) (*Set, error) {
	single := filepath.Join(dir, SingleName)
	if exists(single) {
		f, err := Open(single)
		if err != nil {
			return nil, err
		}
		s := &Set{root: single, files: []*File{f}, home: make(map[string]*File, len(f.names)), names: f.names}
		for _, name := range f.names {
			s.home[name] = f
		}
		return s, nil
	}
	index := filepath.Join(dir, IndexName)
	if !exists(index) {
		return nil, badinput.Errorf("%s: it holds neither %s nor %s; expected a Hugging Face model directory", dir, SingleName, IndexName)
	}
	return openShards(dir, index)
}

func openShards(dir, index string) (_ *Set, err error) {
	weightMap, err := readIndex(index)
	if err != nil {
		return nil, err
	}
	s := &Set{root: index, home: make(map[string]*File, len(weightMap))}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	opened := make(map[string]*File)
	for name := range weightMap {
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	for _, name := range s.names {
		shard := weightMap[name]
		f := opened[shard]
		if f == nil {
			path := filepath.Join(dir, shard)
			if !exists(path) {
				return nil, badinput.Errorf("%s: shard %q is absent; %s lists it for tensor %q", dir, shard, IndexName, name)
			}
			if f, err = Open(path); err != nil {
				return nil, err
			}
			opened[shard] = f
			s.files = append(s.files, f)
		}
		if !f.Has(name) {
			return nil, badinput.Errorf("%s: tensor %q is missing; %s lists it there", f.path, name, IndexName)
		}
		s.home[name] = f
	}
	slices.SortFunc(s.files, func(a, b *File) int { return strings.Compare(a.path, b.path) })
	return s, nil
}

// Shards are the files that an index names, sorted.
func Shards(index string) ([]string, error) {
	weightMap, err := readIndex(index)
	return slices.Compact(slices.Sorted(maps.Values(weightMap))), err
}

// readIndex returns the shard of each tensor.
func readIndex(path string) (map[string]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxHeader {
		return nil, badinput.Errorf("%s: it has %d bytes, at most %d are allowed", path, info.Size(), maxHeader)
	}
	text, err := openfile.Read(path)
	if err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	weightMap, err := parseIndex(text)
	if err != nil {
		return nil, badinput.Errorf("%s: %w", path, err)
	}
	return weightMap, nil
}

func parseIndex(text []byte) (map[string]string, error) {
	if err := scanJSON(text); err != nil {
		return nil, fmt.Errorf("it is not usable JSON: %w", err)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("it is not an index: %w", err)
	}
	if len(index.WeightMap) == 0 {
		return nil, errors.New(`"weight_map" is missing or empty`)
	}
	for name, shard := range index.WeightMap {
		if !filepath.IsLocal(shard) || filepath.Clean(shard) == "." {
			return nil, fmt.Errorf("tensor %q is said to be in %q, expected a file inside the model's directory", name, shard)
		}
	}
	return index.WeightMap, nil
}

// Names are the names of all tensors, sorted.
func (s *Set) Names() []string { return s.names }

// Index is the path of the index; "" if one file has all tensors.
func (s *Set) Index() string {
	if filepath.Base(s.root) == IndexName {
		return s.root
	}
	return ""
}

// Files are the files of the set, sorted by path.
func (s *Set) Files() []*File { return s.files }

// Has reports whether there is a tensor of that name.
func (s *Set) Has(name string) bool { return s.home[name] != nil }

// Tensor is File.Tensor over the whole set.
func (s *Set) Tensor(name string, shape ...int) (Tensor, error) {
	if s.until != nil && s.until.Err() != nil {
		return Tensor{}, s.until.Err()
	}
	f := s.home[name]
	if f == nil {
		return Tensor{}, badinput.Errorf("%s: tensor %q is missing", s.root, name)
	}
	return f.Tensor(name, shape...)
}

// Other is File.Other over the whole set.
func (s *Set) Other(name string) (o Other, ok bool) {
	f := s.home[name]
	if f == nil {
		return o, false
	}
	return f.Other(name)
}

// Bytes is File.Bytes over the whole set.
func (s *Set) Bytes(name string) ([]byte, []int, error) {
	f := s.home[name]
	if f == nil {
		return nil, nil, badinput.Errorf("%s: tensor %q is missing", s.root, name)
	}
	return f.Bytes(name)
}

// Path is the file of a tensor, or if it is missing, what to name.
func (s *Set) Path(name string) string {
	if f := s.home[name]; f != nil {
		return f.path
	}
	return s.root
}

// Release is File.Release over the whole set.
func (s *Set) Release(name string) {
	if f := s.home[name]; f != nil {
		f.Release(name)
	}
}

// Close unmaps all files.
func (s *Set) Close() error {
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// exists reports whether path exists; a broken link does not.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
