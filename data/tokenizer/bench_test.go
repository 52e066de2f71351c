package tokenizer

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
)

// pythonSource is some megabytes of Python: the standard library where there is one, or else a small
// program over and over.
func pythonSource(b *testing.B) string {
	b.Helper()
	var text strings.Builder
	for _, dir := range []string{"/usr/lib/python3*", "/usr/local/lib/python3*"} {
		files, _ := filepath.Glob(filepath.Join(dir, "*.py"))
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err == nil {
				text.Write(data)
			}
		}
	}
	if text.Len() == 0 {
		data, err := os.ReadFile("testdata/corpus.txt")
		if err != nil {
			b.Fatal(err)
		}
		b.Log("no Python library here: the small corpus, repeated, flatters the cache")
		text.WriteString(strings.Repeat(string(data), 200))
	}
	return text.String()
}

func benchmarkEncode(b *testing.B, text string, fresh bool) {
	tok, _ := qwen3(b)
	b.SetBytes(int64(len(text)))
	tokens := 0
	for b.Loop() {
		if fresh {
			b.StopTimer()
			for i := range tok.bpe.cache.slots {
				tok.bpe.cache.slots[i].Store(nil)
			}
			runtime.GC()
			b.StartTimer()
		}
		tokens += len(tok.Encode(text))
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

func BenchmarkEncodePython(b *testing.B) { benchmarkEncode(b, pythonSource(b), false) }

// BenchmarkEncodeCold empties the cache of pieces before each round.
func BenchmarkEncodeCold(b *testing.B) { benchmarkEncode(b, pythonSource(b), true) }

func BenchmarkEncodeOnePiece(b *testing.B) { benchmarkEncode(b, strings.Repeat("a", 1<<20), false) }

func BenchmarkDecode(b *testing.B) {
	tok, _ := qwen3(b)
	ids := tok.Encode(pythonSource(b))
	for b.Loop() {
		tok.Decode(ids, true)
	}
	b.ReportMetric(float64(b.N*len(ids))/b.Elapsed().Seconds(), "tokens/s")
}

func BenchmarkLoad(b *testing.B) {
	dir := tokenizertest.Qwen3(b)
	for b.Loop() {
		if _, err := Load(dir); err != nil {
			b.Fatal(err)
		}
	}
}
