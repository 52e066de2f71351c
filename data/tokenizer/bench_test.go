package tokenizer

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
	"github.com/seed-7879b91d/grpo/internal/cputime"
)

// pythonSource is some megabytes of Python: the standard library, or the test corpus repeated if that is not installed.
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

func benchmarkEncode(b *testing.B, tok *Tokenizer, text string, fresh bool) {
	b.SetBytes(int64(len(text)))
	tokens, spent := 0, time.Duration(0)
	for b.Loop() {
		if fresh {
			b.StopTimer()
			for i := range tok.bpe.cache.slots {
				tok.bpe.cache.slots[i].Store(nil)
			}
			runtime.GC()
			b.StartTimer()
		}
		start := cputime.Used()
		tokens += len(tok.Encode(text))
		spent += cputime.Used() - start
	}
	b.ReportMetric(float64(tokens)/spent.Seconds(), "tokens/s") // processor time, as other programs may run
}

// BenchmarkEncode encodes Python, with a warm cache of pieces and with one that is emptied before each round (cold), and one long word.
func BenchmarkEncode(b *testing.B) {
	text, word := pythonSource(b), strings.Repeat("a", 1<<20)
	for _, m := range []struct {
		name  string
		files func(testing.TB) string
	}{
		{"qwen3", tokenizertest.Qwen3}, {"qwen2.5", tokenizertest.Qwen25}, {"llama3", tokenizertest.Llama3}, {"gemma2", tokenizertest.Gemma2},
	} {
		tok, err := Load(m.files(b))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(m.name+"/python", func(b *testing.B) { benchmarkEncode(b, tok, text, false) })
		b.Run(m.name+"/cold", func(b *testing.B) { benchmarkEncode(b, tok, text, true) })
		b.Run(m.name+"/word", func(b *testing.B) { benchmarkEncode(b, tok, word, false) })
	}
}

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
