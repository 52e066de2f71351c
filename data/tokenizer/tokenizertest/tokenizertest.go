// Package tokenizertest has tokenizers that models are published with, for tests, with what Hugging Face's own
// makes of texts and of conversations. It knows nothing of how text becomes tokens.
package tokenizertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"os"
	"path/filepath"
	"testing"
)

//go:embed testdata/*.tar.gz
var packed embed.FS

// Qwen3 unpacks the files of Qwen3 into a folder that the test owns: tokenizer.json and tokenizer_config.json
// as published, vectors.json and chat_vectors.json. testdata/README.md says what is in them.
func Qwen3(t testing.TB) (dir string) {
	t.Helper()
	dir, err := unpack(t.TempDir(), "qwen3")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Llama3, Gemma2 and Qwen25 do the same for Llama 3.2, Gemma 2 and Qwen2.5, with the chat templates in files
// of their own.
func Llama3(t testing.TB) (dir string) { return withMerges(t, "llama3", byParts) }
func Gemma2(t testing.TB) (dir string) { return withMerges(t, "gemma2", longestFirst) }
func Qwen25(t testing.TB) (dir string) {
	t.Helper()
	dir, err := unpack(t.TempDir(), "qwen2_5")
	if err == nil {
		err = fromQwen3(t.TempDir(), dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func withMerges(t testing.TB, name string, order func(splits []split)) (dir string) {
	t.Helper()
	dir, err := unpack(t.TempDir(), name)
	if err == nil {
		err = addMerges(filepath.Join(dir, "tokenizer.json"), order)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func unpack(dir, name string) (string, error) {
	archive, err := packed.ReadFile("testdata/" + name + ".tar.gz")
	if err != nil {
		return "", err
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if err == io.EOF {
			return dir, nil
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(files)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, h.Name), content, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
}
