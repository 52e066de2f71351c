package model

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Save writes the trained parameters to dir: a PEFT adapter, or a model in f32 with configuration and tokenizer of the model in base.
func (p *Policy) Save(dir, base string) error { return p.trained.save(dir, base) }

// Restore loads the parameters that Save wrote, in place: decoders and optimizers stay valid.
func (p *Policy) Restore(dir string) error { return p.trained.restore(dir) }

// SaveGradients writes the gradients as safetensors, under the names of their parameters.
func (p *Policy) SaveGradients(path string) error { return p.trained.saveGradients(path) }

// SaveModel writes a fully trained model to dir: weights rounded to bf16, and config.json. There is no
// base model to copy a tokenizer from: that is up to the caller.
func (p *Policy) SaveModel(dir string) error {
	m, ok := p.trained.(*masters)
	if !ok {
		return fmt.Errorf("model: only a model with train=full has weights to save")
	}
	if err := m.write(dir, kernels.EncodedBF16); err != nil {
		return err
	}
	return p.Config.Write(dir, "bfloat16")
}

// write writes the weights as the tensors of a model into dir.
func (m *masters) write(dir string, enc kernels.Encoding) error {
	if err := disk.MkdirAll(dir); err != nil {
		return badinput.Errorf("output directory: %w", err)
	}
	return tensorfile.WriteModel(dir, m.sources(m.slab.Params, enc), map[string]string{"format": "pt"})
}

// chunkNumbers is the size of host buffers, in numbers: a copy of all weights, or of an embedding, would exceed the memory plan.
const chunkNumbers = 1 << 16

// sources cuts one of the slabs into the tensors of the model's files.
func (m *masters) sources(slab kernels.Buffer, enc kernels.Encoding) (sources []tensorfile.Source) {
	values, exact, text := make([]float32, chunkNumbers), make([]float64, chunkNumbers), make([]byte, chunkNumbers*enc.Size())
	write := func(w io.Writer, part kernels.Buffer) error {
		for from := 0; from < part.Len(); from += chunkNumbers {
			n := min(chunkNumbers, part.Len()-from)
			if err := m.b.Download(values[:n], part.Slice(from, from+n)); err != nil {
				return err
			}
			for i, x := range values[:n] {
				exact[i] = float64(x)
			}
			tensorfile.Narrow(text, enc, exact[:n])
			if _, err := w.Write(text[:n*enc.Size()]); err != nil {
				return err
			}
		}
		return nil
	}
	for _, s := range m.order {
		at := m.offsets[s.Name]
		for _, p := range s.Parts {
			part := slab.Slice(at, at+p.Rows*s.Cols)
			sources = append(sources, tensorfile.Source{Name: p.Tensor, Encoding: enc, Shape: s.Shape(p),
				Write: func(w io.Writer) error { return write(w, part) }})
			at += part.Len()
		}
	}
	return sources
}

// companions are the files of a model's directory besides weights and config.json.
var companions = []string{"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
	"vocab.json", "merges.txt", "added_tokens.json", "chat_template.jinja"}

// copyCompanions copies config.json and the companions. It sets the weights' new type in config.json, unless results
// depend on the old one.
func copyCompanions(dir, base, dtype string) error {
	text, err := os.ReadFile(filepath.Join(base, "config.json"))
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(base, "config.json"), err)
	}
	if c, err := ReadConfig(base); err != nil || c.DType == "" { // with DType, the forward pass depends on it
		delete(config, "dtype")
		config["torch_dtype"] = dtype
	}
	if text, err = json.MarshalIndent(config, "", "  "); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, "config.json"), append(text, '\n')); err != nil {
		return err
	}
	for _, name := range companions {
		text, err := os.ReadFile(filepath.Join(base, name))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = atomicfile.WriteBytes(filepath.Join(dir, name), text)
		}
		if err != nil {
			return err
		}
	}
	return tensorfile.CopyTemplates(base, dir)
}
