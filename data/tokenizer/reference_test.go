package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// referenceDir finds the folder of reference files: $GRPO_REFERENCE, or shared beside the checkout.
func referenceDir(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv("GRPO_REFERENCE")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	dir := filepath.Join(root, filepath.FromSlash(name))
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no reference files at %s (set GRPO_REFERENCE to the folder that has %s)", dir, name)
	}
	return dir
}

var loadQwen = sync.OnceValues(func() (*Tokenizer, error) { return Load(qwenDir) })

var qwenDir string

// qwen3 is the tokenizer of Qwen3, loaded once.
func qwen3(t testing.TB) *Tokenizer {
	t.Helper()
	qwenDir = referenceDir(t, "tokenizers/qwen3")
	tok, err := loadQwen()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func readTestJSON(t testing.TB, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
