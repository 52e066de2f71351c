package lora

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// Merge writes the model in modelDir with the adapter merged into its weights: a Hugging Face directory
// outDir, which must not exist yet or be empty, with the same shards, encodings and other files. Each
// weight W + scale·B·A is computed in double precision and rounded once. outDir appears when everything
// is written, or not at all.
func Merge(modelDir string, a *Adapter, outDir string) error {
	outDir, err := filepath.Abs(outDir)
	if err != nil {
		return err
	}
	if err := checkAbsent(outDir); err != nil {
		return err
	}
	parent := filepath.Dir(outDir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	unfinished, err := os.MkdirTemp(parent, "."+filepath.Base(outDir)+".*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unfinished) // after the rename there is nothing left under this name
	if err := a.mergeInto(unfinished, modelDir); err != nil {
		return err
	}
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return err
	}
	if err := os.Remove(outDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(unfinished, outDir); err != nil {
		return err
	}
	return atomicfile.SyncDir(parent)
}

// mergeInto fills the folder outDir with the merged model.
func (a *Adapter) mergeInto(outDir, modelDir string) (err error) {
	model, err := tensorfile.OpenModel(modelDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	corrections, err := a.corrections(model)
	if err != nil {
		return err
	}
	for _, f := range model.Files() {
		if err := mergeFile(f, modelDir, corrections, outDir); err != nil {
			return err
		}
	}
	return copyRest(modelDir, model.Index(), outDir)
}

// checkAbsent refuses to write over a folder that holds something.
func checkAbsent(dir string) error {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return badinput.Errorf("%w", err)
	}
	if len(found) > 0 {
		return badinput.Errorf("%s: the folder is not empty; choose a new one", dir)
	}
	return nil
}

// isWeights tells a model's weights, in whatever format, from the files that go with them.
func isWeights(name string) bool {
	formats := []string{".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".index.json"}
	return slices.ContainsFunc(formats, func(end string) bool { return strings.HasSuffix(name, end) })
}

// copyRest copies what is beside the weights, configuration, tokenizer, licence, and the index of the
// shards if there is one. Folders and hidden files stay behind.
func copyRest(modelDir, index, outDir string) error {
	found, err := os.ReadDir(modelDir)
	if err != nil {
		return err
	}
	for _, f := range found {
		path := filepath.Join(modelDir, f.Name())
		if strings.HasPrefix(f.Name(), ".") || isWeights(f.Name()) && path != index {
			continue
		}
		info, err := os.Stat(path) // what a link leads to
		if err != nil {
			return badinput.Errorf("%w", err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if err := copyFile(path, filepath.Join(outDir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return badinput.Errorf("%w", err)
	}
	defer f.Close()
	return atomicfile.Write(to, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// corrections are the corrections by the name of their weight, all of which are checked against the model.
func (a *Adapter) corrections(model *tensorfile.Set) (map[string]correction, error) {
	found := make(map[string]correction)
	for layer := range a.Dims.Layers {
		for _, t := range a.Config.Targets {
			name := fmt.Sprintf("model.layers.%d.%s.weight", layer, t.module())
			out, in := a.Dims.Shape(t)
			if _, err := model.Tensor(name, out, in); err != nil {
				return nil, err
			}
			ea, eb, _ := a.Pair(layer, t)
			found[name] = newCorrection(a.Of(ea), a.Of(eb), a.Config)
		}
	}
	return found, nil
}

// mergeFile writes one file of the model, corrected, under the same name below outDir.
func mergeFile(f *tensorfile.File, modelDir string, corrections map[string]correction, outDir string) error {
	name, err := filepath.Rel(modelDir, f.Path())
	if err != nil {
		return err
	}
	path := filepath.Join(outDir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	sources := make([]tensorfile.Source, 0, len(f.Names()))
	for _, name := range f.Names() {
		t, err := f.Tensor(name)
		if err != nil {
			return err
		}
		s := tensorfile.FromTensor(t)
		write := s.Write
		if c, ok := corrections[name]; ok {
			write = func(w io.Writer) error { return c.write(w, t) }
		}
		s.Write = func(w io.Writer) error {
			defer f.Release(name)
			return write(w)
		}
		sources = append(sources, s)
	}
	return tensorfile.Write(path, sources, f.Metadata())
}
