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

// Save writes what was trained to dir: a PEFT adapter, or a model in f32 with the configuration and
// the tokenizer of the model in base.
func (p *Policy) Save(dir, base string) error { return p.trained.save(dir, base) }

// Restore gives the parameters the values that Save wrote; decoders and optimizers that use them go on.
func (p *Policy) Restore(dir string) error { return p.trained.restore(dir) }

// SaveGradients writes the gradients as safetensors, under the names of the tensors that they belong to.
func (p *Policy) SaveGradients(path string) error { return p.trained.saveGradients(path) }

// SaveModel writes a model that is trained as a whole to dir: weights rounded once to bf16, and
// config.json. There is no base to copy the rest from: a tokenizer is put beside it by who has one.
func (p *Policy) SaveModel(dir string) error {
	m, ok := p.trained.(*masters)
	if !ok {
		return fmt.Errorf("model: only a model that is trained as a whole has weights to save")
	}
	if err := m.write(dir, kernels.EncodedBF16); err != nil {
		return err
	}
	return p.Config.Write(dir, "bfloat16")
}

// write puts the values into dir as the tensors of a model.
func (m *masters) write(dir string, enc kernels.Encoding) error {
	if err := disk.MkdirAll(dir); err != nil {
		return badinput.Errorf("output directory: %w", err)
	}
	sources, err := m.sources(m.params, enc)
	if err != nil {
		return err
	}
	return tensorfile.WriteModel(dir, sources, map[string]string{"format": "pt"})
}

// sources cuts one of the slabs into the tensors of the model's files.
func (m *masters) sources(slab kernels.Buffer, enc kernels.Encoding) ([]tensorfile.Source, error) {
	host := make([]float32, slab.Len())
	if err := m.b.Download(host, slab); err != nil {
		return nil, err
	}
	var sources []tensorfile.Source
	for _, s := range m.order {
		at := m.offsets[s.Name]
		for _, p := range s.Parts {
			values := host[at : at+p.Rows*s.Cols]
			sources = append(sources, rounded(tensorfile.FromFloat32s(p.Tensor, values, s.Shape(p)...), values, enc))
			at += len(values)
		}
	}
	return sources, nil
}

// rounded is an f32 tensor of these values, in another encoding where one is asked for.
func rounded(s tensorfile.Source, values []float32, enc kernels.Encoding) tensorfile.Source {
	if enc == kernels.EncodedF32 {
		return s
	}
	s.Encoding = enc
	s.Write = func(w io.Writer) error {
		wide := make([]float64, len(values))
		for i, x := range values {
			wide[i] = float64(x)
		}
		text := make([]byte, len(values)*enc.Size())
		tensorfile.Narrow(text, enc, wide)
		_, err := w.Write(text)
		return err
	}
	return s
}

// companions are the files that make a directory of weights a model.
var companions = []string{"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
	"vocab.json", "merges.txt", "added_tokens.json", "chat_template.jinja"}

// copyCompanions copies config.json, with the weights' new type unless the old one is part of the model, and whatever else
// of the model is there.
func copyCompanions(dir, base string) error {
	text, err := os.ReadFile(filepath.Join(base, "config.json"))
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(base, "config.json"), err)
	}
	if c, err := ReadConfig(base); err != nil || c.DType == "" { // else what is computed depends on it
		delete(config, "dtype")
		config["torch_dtype"] = "float32"
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
	return nil
}
