package nf4

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// QuantiseModel writes the model in dir to the folder out, which must not exist or be empty, with the matrices of its layers
// quantised to four bits. The embedding, the head and the norms stay as they are. If ctx ends, it returns the context's error,
// and leaves no out.
func QuantiseModel(ctx context.Context, dir, out string, double bool) error {
	return rewrite(ctx, dir, out, func(set *tensorfile.Set, config map[string]any) ([]tensorfile.Source, error) {
		if AnyQuantised(set) {
			return nil, badinput.Errorf("%s: its weights are in four bits already", dir)
		}
		var sources []tensorfile.Source
		count := 0
		for _, name := range set.Names() {
			if o, ok := set.Other(name); ok {
				sources = append(sources, tensorfile.FromOther(o))
				continue
			}
			t, err := set.Tensor(name)
			if err != nil {
				return nil, err
			}
			if !inLayer(name) || len(t.Shape) != 2 {
				sources = append(sources, tensorfile.FromTensor(t))
				continue
			}
			if t, err = numbers(set, name); err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			count++
			sources = append(sources, quantised(t, double, func() { set.Release(name) })...)
		}
		if count == 0 {
			return nil, badinput.Errorf("%s: there is no matrix of a layer (model.layers.…) to quantise", dir)
		}
		config["quantization_config"] = map[string]any{
			"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false, "bnb_4bit_quant_type": "nf4",
			"bnb_4bit_use_double_quant": double, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8",
		}
		return sources, nil
	})
}

// DequantiseModel writes the quantised model in dir to the folder out, which must not exist or be empty, with its weights
// in their original type. If ctx ends, it returns the context's error, and leaves no out.
func DequantiseModel(ctx context.Context, dir, out string) error {
	return rewrite(ctx, dir, out, func(set *tensorfile.Set, config map[string]any) ([]tensorfile.Source, error) {
		if !AnyQuantised(set) {
			return nil, badinput.Errorf("%s: its weights are no codes of four bits", dir)
		}
		delete(config, "quantization_config")
		parts := map[string]bool{}
		for _, name := range set.Names() {
			if weight, ok := strings.CutSuffix(name, stateName); ok {
				parts[weight] = true
			}
		}
		var sources []tensorfile.Source
		for _, name := range set.Names() {
			if parts[weightOf(name)] && !parts[name] {
				continue
			}
			if o, ok := set.Other(name); ok && !parts[name] {
				sources = append(sources, tensorfile.FromOther(o))
				continue
			}
			if !parts[name] {
				t, err := set.Tensor(name)
				if err != nil {
					return nil, err
				}
				sources = append(sources, tensorfile.FromTensor(t))
				continue
			}
			m, err := readAny(set, name)
			if err != nil {
				return nil, err
			}
			sources = append(sources, decoded(m, name, func() { set.Release(name) }))
		}
		return sources, nil
	})
}

// IsModel reports whether the model in dir is quantised to four bits.
func IsModel(dir string) (bool, error) {
	set, err := tensorfile.OpenModel(dir)
	if err != nil {
		return false, err
	}
	return AnyQuantised(set), set.Close()
}

// AnyQuantised reports whether any weight of a model is quantised to four bits.
func AnyQuantised(set *tensorfile.Set) bool {
	for _, name := range set.Names() {
		if strings.HasSuffix(name, stateName) {
			return true
		}
	}
	return false
}

// inLayer reports whether a weight belongs to a layer.
func inLayer(name string) bool {
	return strings.HasPrefix(name, "model.layers.") && strings.HasSuffix(name, ".weight")
}

// weightOf is the name of the weight that a tensor would be a part of.
func weightOf(part string) string {
	if i := strings.Index(part, ".weight."); i >= 0 {
		return part[:i+len(".weight")]
	}
	return part
}

// readAny is Read for the shape that the quantisation state has.
func readAny(set *tensorfile.Set, name string) (*Matrix, error) {
	s, _, err := readState(set, name)
	if err != nil {
		return nil, err
	}
	if len(s.Shape) != 2 || min(s.Shape[0], s.Shape[1]) < 1 || max(s.Shape[0], s.Shape[1]) > math.MaxInt32 {
		return nil, badinput.Errorf("%s: %q: its state says shape %v, expected that of a matrix", set.Path(name), name, s.Shape)
	}
	m, _, err := Read(set, name, s.Shape[0], s.Shape[1])
	return m, err
}

// rewrite writes a model with other tensors, until ctx ends. Other files of the model are copied.
func rewrite(ctx context.Context, dir, out string,
	sources func(set *tensorfile.Set, config map[string]any) ([]tensorfile.Source, error)) error {
	return atomicfile.WriteDir(out, func(unfinished string) (err error) {
		set, err := tensorfile.OpenModel(dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, set.Close()) }()
		path := filepath.Join(dir, "config.json")
		text, err := os.ReadFile(path)
		if err != nil {
			return badinput.Errorf("%w", err)
		}
		var config map[string]any
		if err := json.Unmarshal(text, &config); err != nil {
			return badinput.Errorf("%s: %w", path, err)
		}
		all, err := sources(set, config)
		if err != nil {
			return err
		}
		for i, s := range all {
			all[i].Write = func(w io.Writer) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return s.Write(w)
			}
		}
		if err := tensorfile.WriteModel(unfinished, all, map[string]string{"format": "pt"}); err != nil {
			return err
		}
		if text, err = json.MarshalIndent(config, "", "  "); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(unfinished, "config.json"), append(text, '\n')); err != nil {
			return err
		}
		return tensorfile.CopyRest(dir, unfinished)
	})
}
