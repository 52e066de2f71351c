package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/gguf"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// modelWriting is a model that is being written.
type modelWriting struct {
	*source
	merged    string // directory of the merged model
	kind, dir string // type of the weights, and the folder to write to
}

// writtenModel is a model that was written.
type writtenModel struct {
	modelWriting
	file  string // the GGUF file, "" for a directory
	bytes int64
	notes []string
}

func (w modelWriting) write(ctx context.Context, format string) (*writtenModel, error) {
	done := &writtenModel{modelWriting: w}
	if format == formatGGUF {
		return done, done.asGGUF(ctx)
	}
	return done, done.asDirectory(ctx)
}

// asGGUF writes a GGUF file, and a Modelfile for Ollama.
func (w *writtenModel) asGGUF(ctx context.Context) error {
	kind, err := gguf.ParseType(w.kind)
	if err != nil {
		return err
	}
	w.file = w.name + "-" + w.kind + ".gguf"
	path := filepath.Join(w.dir, w.file)
	if w.notes, err = gguf.Export(ctx, w.merged, path, w.name, kind); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		w.bytes = info.Size()
	}
	text, note := modelfile(w.file, w.tok, w.renderer, w.stops)
	w.notes = append(w.notes, note)
	return atomicfile.WriteBytes(filepath.Join(w.dir, "Modelfile"), []byte(text))
}

// dtypes are the types for a directory, by --type, with their names in config.json.
var dtypes = map[string]struct {
	encoding kernels.Encoding
	name     string
}{"bf16": {kernels.EncodedBF16, "bfloat16"}, "f16": {kernels.EncodedF16, "float16"}}

// asDirectory writes a Hugging Face directory.
func (w *writtenModel) asDirectory(ctx context.Context) (err error) {
	set, err := tensorfile.OpenModel(w.merged)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	cfg, err := model.ReadConfig(w.merged)
	if err != nil {
		return err
	}
	weights, d := cfg.Tensors(), dtypes[w.kind]
	weights["lm_head.weight"] = true // a tied head must stay equal to the embedding
	var sources []tensorfile.Source
	for _, name := range set.Names() {
		s, err := sourceOf(set, name, d.encoding, weights[name])
		if err != nil {
			return err
		}
		write := s.Write
		s.Write = func(to io.Writer) error {
			defer set.Release(name)
			return write(&sizeCounter{tensorfile.ContextWriter(ctx, to), &w.bytes})
		}
		sources = append(sources, s)
	}
	if err := tensorfile.WriteModel(w.dir, sources, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	table, err := set.Tensor("model.embed_tokens.weight")
	if err == nil {
		err = w.config(table.Encoding, d.name)
	}
	if err != nil {
		return err
	}
	return tensorfile.CopyRest(w.merged, w.dir)
}

// sizeCounter adds up the size of what is written.
type sizeCounter struct {
	io.Writer
	sum *int64
}

func (s *sizeCounter) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	*s.sum += int64(n)
	return n, err
}

// config copies config.json with the new type of the weights, unless the computation depends on the old type.
func (w *writtenModel) config(was kernels.Encoding, dtype string) error {
	c, err := model.ReadConfig(w.merged)
	if err != nil {
		return err
	}
	path := filepath.Join(w.merged, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		return badinput.Errorf("%s: %w", path, err)
	}
	if c.DType == "" {
		delete(keys, "dtype")
		keys["torch_dtype"] = c.Published(was).Type(dtype)
	}
	if text, err = json.MarshalIndent(keys, "", "  "); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(w.dir, "config.json"), append(text, '\n'))
}

// sourceOf is a tensor to be written: converted if it is a weight, else unchanged. Other tensors, such as the frequencies of a rotary
// embedding, are for programs that expect them as they are.
func sourceOf(set *tensorfile.Set, name string, to kernels.Encoding, weight bool) (tensorfile.Source, error) {
	if o, ok := set.Other(name); ok {
		return tensorfile.FromOther(o), nil
	}
	t, err := set.Tensor(name)
	if err != nil {
		return tensorfile.Source{}, err
	}
	if !weight {
		return tensorfile.FromTensor(t), nil
	}
	return converted(t, to), nil
}

// converted is a tensor in another encoding, each number rounded once, some at a time.
func converted(t tensorfile.Tensor, to kernels.Encoding) tensorfile.Source {
	s := tensorfile.FromTensor(t)
	if t.Encoding == to {
		return s
	}
	s.Encoding = to
	s.Write = func(w io.Writer) error {
		const atATime = 1 << 14
		narrow, wide, exact := make([]float32, atATime), make([]byte, atATime*to.Size()), make([]float64, atATime)
		for at := 0; at < t.Len(); at += atATime {
			part := narrow[:min(atATime, t.Len()-at)]
			tensorfile.Widen(part, t.Encoding, t.Bytes[at*t.Encoding.Size():])
			for i, x := range part {
				if exact[i] = float64(x); to == kernels.EncodedF16 && (x > 65504 || x < -65504) {
					return badinput.Errorf("%s: tensor %q: %g is too large for f16; type --type bf16", t.File, t.Name, x)
				}
			}
			tensorfile.Narrow(wide, to, exact[:len(part)])
			if _, err := w.Write(wide[:len(part)*to.Size()]); err != nil {
				return err
			}
		}
		return nil
	}
	return s
}

// probe opens the written model, and makes the same probe of it.
func (w *writtenModel) probe(ctx context.Context, b kernels.Backend, want *probe) (*probe, error) {
	o := model.Options{Precision: model.F32, Cache: model.F32}
	if w.file == "" {
		p, err := model.OpenContext(ctx, b, w.dir, false, o)
		if err != nil {
			return nil, err
		}
		return w.repeatProbe(ctx, p, want)
	}
	f, err := gguf.Open(filepath.Join(w.dir, w.file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := w.checkWords(f, want); err != nil {
		return nil, err
	}
	p, err := f.Model(ctx, b, o)
	if err != nil {
		return nil, err
	}
	return w.repeatProbe(ctx, p, want)
}

// checkWords checks that the file decodes the policy's answers as the tokenizer does.
func (w *writtenModel) checkWords(f *gguf.File, want *probe) error {
	for _, a := range want.answers {
		text, err := f.Text(a)
		if err == nil && text != w.tok.Decode(a, false) {
			err = fmt.Errorf("%s: it spells %.60q as %.60q", f.Path, w.tok.Decode(a, false), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lines report what was written, by its final path.
func (w *writtenModel) lines(out string) []string {
	name, mib := filepath.Join(out, w.file), float64(w.bytes)/(1<<20)
	all := []string{fmt.Sprintf("%s: %.1f MiB of weights in %s", name, mib, w.kind)}
	if w.file != "" {
		all[0] = fmt.Sprintf("%s: %.1f MiB, weights in %s", name, mib, w.kind)
	}
	return append(all, w.notes...)
}
