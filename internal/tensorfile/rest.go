package tensorfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
)

// isWeights reports whether a file of a model has weights, in any format.
func isWeights(name string) bool {
	formats := []string{".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".index.json"}
	return slices.ContainsFunc(formats, func(end string) bool { return strings.HasSuffix(name, end) })
}

// CopyRest copies the files beside a model's weights: configuration, tokenizer, licence; and those weight files that also names, such
// as the index of unchanged shards. It copies no folders but that of chat templates, no hidden files, and nothing that outDir has
// already.
func CopyRest(modelDir, outDir string, also ...string) error {
	found, err := os.ReadDir(modelDir)
	if err != nil {
		return err
	}
	for _, f := range found {
		name := f.Name()
		to := filepath.Join(outDir, name)
		if strings.HasPrefix(name, ".") || isWeights(name) && !slices.Contains(also, name) || exists(to) {
			continue
		}
		info, err := os.Stat(filepath.Join(modelDir, name)) // follows links
		if err != nil {
			return badinput.Errorf("%w", err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if err := copyFile(filepath.Join(modelDir, name), to); err != nil {
			return err
		}
	}
	return CopyTemplates(modelDir, outDir)
}

// CopyTemplates copies the additional chat templates of a model, if it has any.
func CopyTemplates(modelDir, outDir string) error {
	const folder = "additional_chat_templates"
	found, err := os.ReadDir(filepath.Join(modelDir, folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return badinput.Errorf("%w", err)
	}
	for _, f := range found {
		if filepath.Ext(f.Name()) != ".jinja" {
			continue
		}
		if err := disk.MkdirAll(filepath.Join(outDir, folder)); err != nil {
			return err
		}
		if err := copyFile(filepath.Join(modelDir, folder, f.Name()), filepath.Join(outDir, folder, f.Name())); err != nil {
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
