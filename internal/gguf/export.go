package gguf

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/model"
)

// Check refuses a model that Export would refuse, as far as can be told without its weights, which may not exist yet.
func Check(dir string) error {
	_, cfg, err := described(dir)
	if err == nil {
		_, _, err = vocabulary(dir, cfg)
	}
	return err
}

// described returns the family and the configuration of the model in dir, if the format supports it.
func described(dir string) (*family, model.Config, error) {
	cfg, err := model.ReadConfig(dir)
	if err != nil {
		return nil, cfg, err
	}
	fam := families[cfg.Architecture]
	if fam == nil {
		return nil, cfg, badinput.Errorf("%s: the format has no %s here; type --format safetensors", dir, cfg.Architecture)
	}
	if err := fam.check(cfg); err != nil {
		return nil, cfg, badinput.Errorf("%s: %w", dir, err)
	}
	return fam, cfg, nil
}

// Export writes the model in dir as a file of type t, with its tokenizer and chat template if it has them. Every number is read
// back and compared. notes say what differs from the model. If ctx ends, it returns the context's error, and leaves no file.
func Export(ctx context.Context, dir, path, name string, t Type) (notes []string, err error) {
	fam, cfg, err := described(dir)
	if err != nil {
		return nil, err
	}
	set, err := tensorfile.OpenModel(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	if nf4.AnyQuantised(set) {
		return nil, badinput.Errorf("%s: its weights are in four bits; type grpo quantize --undo --model %s --out DIR first", dir,
			display.ShellQuote(dir))
	}
	tensors, err := fam.tensors(ctx, cfg, set, t)
	if err != nil {
		return nil, err
	}
	if cfg, err = withWeightType(cfg, set); err != nil {
		return nil, err
	}
	pairs := append(fam.settings(cfg, t), Pair{"general.name", name})
	words, more, err := vocabulary(dir, cfg)
	if err != nil {
		return nil, err
	}
	if _, note := fam.context(cfg); note != "" {
		notes = append(notes, note)
	}
	return append(notes, more...), Write(path, append(pairs, words...), tensors)
}

// withWeightType completes the configuration with the type of the weights, if config.json does not say it.
func withWeightType(c model.Config, set *tensorfile.Set) (model.Config, error) {
	table, err := set.Tensor("model.embed_tokens.weight")
	return c.Published(table.Encoding), err
}

// tensors are the tensors of the model, in the order of its forward pass.
func (f *family) tensors(ctx context.Context, cfg model.Config, set *tensorfile.Set, t Type) (all []Tensor, err error) {
	if divisors := factors(cfg); divisors != nil {
		all = append(all, Tensor{ropeFactor, F32, []int{len(divisors)}, func(w io.Writer) error {
			return tensorfile.WriteFloat32s(w, divisors)
		}})
	}
	for _, slot := range cfg.Slots() {
		for _, part := range slot.Parts {
			from, err := set.Tensor(part.Tensor, slot.Shape(part)...)
			if err != nil {
				return nil, err
			}
			name, err := f.tensorName(part.Tensor)
			if err != nil {
				return nil, err
			}
			kind := t.forTensor(name, from.Shape)
			change := f.changeOf(part.Tensor, cfg)
			all = append(all, Tensor{name, kind, from.Shape, func(w io.Writer) error {
				defer set.Release(part.Tensor)
				return change.write(tensorfile.ContextWriter(ctx, w), from, kind)
			}})
		}
	}
	return all, nil
}

// chunkNumbers is how many numbers of a tensor are in memory at a time.
const chunkNumbers = 1 << 16

// write writes a tensor in type t.
func (c tensorChange) write(w io.Writer, from tensorfile.Tensor, t Type) error {
	rows, cols := 1, from.Shape[len(from.Shape)-1]
	if len(from.Shape) == 2 {
		rows = from.Shape[0]
	} else if c.heads > 0 { // a bias: one number per row
		rows, cols = cols, 1
	}
	if from.Encoding == encodings[t] && kinds[t].block == 1 && c.isZero() {
		if err := tensorfile.CheckFinite(from); err != nil {
			return err
		}
		_, err := w.Write(from.Bytes)
		return err
	}
	size := from.Encoding.Size()
	n := min(cols, chunkNumbers/kinds[t].block*kinds[t].block)
	values, again, wide := make([]float32, n), make([]float32, n), make([]float64, n)
	written := make([]byte, n/kinds[t].block*kinds[t].bytes)
	for r := range rows {
		for at := 0; at < cols; at += n {
			part := values[:min(n, cols-at)]
			tensorfile.Widen(part, from.Encoding, from.Bytes[(c.row(r)*cols+at)*size:])
			for i := range part {
				part[i] += c.offset
			}
			out := written[:len(part)/kinds[t].block*kinds[t].bytes]
			err := t.encode(out, part, wide)
			if err == nil {
				err = t.check(part, out, again)
			}
			if err != nil {
				return badinput.Errorf("%s: tensor %q: row %d: %w", from.File, from.Name, r, err)
			}
			if _, err := w.Write(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// Set presents the tensors of the file under the names of a Hugging Face model.
func (f *File) Set() (*tensorfile.Set, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, err
	}
	fam := families[cfg.Architecture]
	var all []tensorfile.Computed
	read := map[string]bool{ropeFactor: true}
	for _, slot := range cfg.Slots() {
		for _, part := range slot.Parts {
			name, err := fam.tensorName(part.Tensor)
			if err != nil {
				return nil, err
			}
			p, ok := f.tensors[name]
			if !ok {
				return nil, badinput.Errorf("%s: tensor %q is missing", f.Path, name)
			}
			read[name] = true
			all = append(all, f.made(part.Tensor, p, fam.changeOf(part.Tensor, cfg)))
		}
	}
	for _, name := range f.order {
		if !read[name] {
			return nil, badinput.Errorf("%s: tensor %q does not belong to a %s", f.Path, name, cfg.Architecture)
		}
	}
	return tensorfile.NewComputedSet(f.Path, all)
}

// made is one of these tensors.
func (f *File) made(name string, p tensorPlace, c tensorChange) tensorfile.Computed {
	encoding, plain := encodings[p.kind]
	if !plain {
		encoding = encodings[F32]
	}
	m := tensorfile.Computed{Name: name, Encoding: encoding, Shape: p.shape, Release: func() { f.mapping.Drop(p.from, p.to) }}
	m.Bytes = func() ([]byte, error) {
		raw := f.mapping.Bytes[p.from:p.to]
		if plain && c.isZero() {
			return raw, nil
		}
		return c.undo(raw, p, encoding.Size())
	}
	return m
}

// undo undoes the change of a tensor's bytes. Quantised blocks become f32.
func (c tensorChange) undo(raw []byte, p tensorPlace, size int) ([]byte, error) {
	rows, cols := 1, p.shape[len(p.shape)-1]
	if len(p.shape) == 2 {
		rows = p.shape[0]
	} else if c.heads > 0 {
		rows, cols = cols, 1
	}
	if c.heads > 0 && rows != c.heads*c.width {
		return nil, fmt.Errorf("it has %d rows, expected %d heads of %d", rows, c.heads, c.width)
	}
	k, encoding := kinds[p.kind], encodings[F32] // for blocks
	if cols%k.block != 0 {
		return nil, fmt.Errorf("its rows are turned one by one, and %s has blocks of %d", p.kind, k.block)
	}
	if e, plain := encodings[p.kind]; plain {
		encoding = e
	}
	out, stride := make([]byte, rows*cols*size), cols/k.block*k.bytes
	values, wide := make([]float32, cols), make([]float64, cols)
	for r := range rows {
		to, from := out[c.row(r)*cols*size:][:cols*size], raw[r*stride:][:stride]
		if k.block == 1 && c.offset == 0 {
			copy(to, from)
			continue
		}
		p.kind.decode(values, from)
		for i := range values {
			wide[i] = float64(values[i] - c.offset)
		}
		tensorfile.Narrow(to, encoding, wide)
	}
	return out, nil
}
