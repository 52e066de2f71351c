// Package tokenizertest has the tokenizer of Qwen3 for tests, with what Hugging Face's own makes of texts and
// of conversations. It knows nothing of how text becomes tokens.
package tokenizertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"os"
	"path/filepath"
	"testing"
)

//go:embed testdata/qwen3.tar.gz
var qwen3 []byte

// Qwen3 unpacks the files of Qwen3 into a folder that the test owns: tokenizer.json and tokenizer_config.json
// as published, vectors.json and chat_vectors.json. testdata/README.md says what is in them.
func Qwen3(t testing.TB) (dir string) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(qwen3))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if err == io.EOF {
			return dir
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(files)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, h.Name), content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
