package tokenizer

import (
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
)

var (
	loadOnce sync.Once
	loaded   *Tokenizer
)

// qwen3 is the tokenizer of Qwen3, loaded once, and a folder with its files.
func qwen3(t testing.TB) (tok *Tokenizer, dir string) {
	t.Helper()
	dir = tokenizertest.Qwen3(t)
	loadOnce.Do(func() {
		var err error
		if loaded, err = Load(dir); err != nil {
			t.Fatal(err)
		}
	})
	if loaded == nil {
		t.Fatal("the tokenizer of Qwen3 does not load")
	}
	return loaded, dir
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
