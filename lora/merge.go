package lora

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// Merge writes the model in modelDir with the adapter merged into its weights: a Hugging Face directory
// outDir, which must not exist yet or be empty, with the same shards, encodings and other files. Each
// weight W + scale·B·A is computed in double precision and rounded once. outDir appears when everything
// is written, or not at all.
func Merge(modelDir string, a *Adapter, outDir string) error {
	precondition.NotNil("lora.Merge", "a", a)
	return MergeContext(context.Background(), modelDir, a, outDir)
}

// MergeContext is Merge that stops with the error of ctx, and leaves nothing behind, when ctx is done.
func MergeContext(ctx context.Context, modelDir string, a *Adapter, outDir string) error {
	precondition.NotNil("lora.MergeContext", "ctx", ctx, "a", a)
	return atomicfile.WriteDir(outDir, func(unfinished string) error { return a.mergeInto(ctx, unfinished, modelDir) })
}

// mergeInto fills the folder outDir with the merged model.
func (a *Adapter) mergeInto(ctx context.Context, outDir, modelDir string) (err error) {
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
		if err := mergeFile(ctx, f, modelDir, corrections, outDir); err != nil {
			return err
		}
	}
	return tensorfile.CopyRest(modelDir, outDir, filepath.Base(model.Index()))
}

// corrections are the corrections by the names of their weights, after checking that they fit the model.
func (a *Adapter) corrections(model *tensorfile.Set) (map[string]correction, error) {
	if err := a.fits(model); err != nil {
		return nil, err
	}
	found := make(map[string]correction)
	for layer := range a.Dims.Layers {
		for _, t := range a.Config.Targets {
			ea, eb, _ := a.Pair(layer, t)
			found[weightName(layer, t)] = newCorrection(a.Of(ea), a.Of(eb), a.Config)
		}
	}
	return found, nil
}

// fits checks that the model has every adapted weight, in the adapter's shape, and not more layers than the adapter.
func (a *Adapter) fits(model *tensorfile.Set) error {
	if err := a.checkFit(); err != nil {
		return err
	}
	if err := a.checkFinite(); err != nil {
		return err
	}
	for layer := range a.Dims.Layers {
		for _, t := range a.Config.Targets {
			out, in := a.Dims.Shape(t)
			if _, err := model.Tensor(weightName(layer, t), out, in); err != nil {
				return err
			}
		}
	}
	for _, t := range a.Config.Targets {
		if more := weightName(a.Dims.Layers, t); model.Has(more) {
			return badinput.Errorf("%s: tensor %q is beyond the adapter's layers, 0 to %d; expected an adapter of this "+
				"model", model.Path(more), more, a.Dims.Layers-1)
		}
	}
	return nil
}

// weightName is the name of a weight in the model's files.
func weightName(layer int, t Target) string {
	return fmt.Sprintf("model.layers.%d.%s.weight", layer, t.module())
}

// mergeFile writes one file of the model, corrected, under the same name below outDir.
func mergeFile(ctx context.Context, f *tensorfile.File, modelDir string, corrections map[string]correction, outDir string) error {
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
		s, err := mergedSource(f, name, corrections)
		if err != nil {
			return err
		}
		write := s.Write
		s.Write = func(w io.Writer) error {
			defer f.Release(name)
			return write(tensorfile.ContextWriter(ctx, w))
		}
		sources = append(sources, s)
	}
	return tensorfile.Write(path, sources, f.Metadata())
}

// mergedSource is a tensor as the merged model has it.
func mergedSource(f *tensorfile.File, name string, corrections map[string]correction) (tensorfile.Source, error) {
	if o, ok := f.Other(name); ok {
		return tensorfile.FromOther(o), nil
	}
	t, err := f.Tensor(name)
	if err != nil {
		return tensorfile.Source{}, err
	}
	s := tensorfile.FromTensor(t)
	if c, ok := corrections[name]; ok {
		s.Write = func(w io.Writer) error { return c.write(w, t) }
	}
	return s, nil
}
