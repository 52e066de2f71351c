package grammar

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
	"github.com/seed-7879b91d/grpo/internal/cputime"
)

// benched are documents as a model writes them.
var benched = []struct{ name, schema, document string }{
	{"object", `{"type":"object"}`,
		`{"name": "Ada Lovelace", "born": 1815, "works": ["Notes on the Analytical Engine", {"year": 1843, "pages": 65.5}], "alive": false}`},
	{"schema", `{"type":"object","properties":{"name":{"type":"string"},"born":{"type":"integer","minimum":0,"maximum":2100},
		"email":{"type":"string","format":"email"},"kind":{"enum":["person","place","thing"]},
		"tags":{"type":"array","items":{"type":"string","maxLength":30},"maxItems":9},
		"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["name","kind","next"],"additionalProperties":false}`,
		`{"name": "Ada Lovelace", "born": 1815, "email": "ada@example.org", "kind": "person", "tags": ["mathematics", "engines"], ` +
			`"next": {"name": "日本 é😀", "kind": "place", "next": null}}`},
	{"long string", `{"type":"object","properties":{"text":{"type":"string"}}}`,
		`{"text": "` + strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40) + `"}`},
	{"pattern", `{"type":"string","pattern":"^[A-Z][a-z]+( [a-z]+)*\\.$"}`, `"The quick brown fox jumps over the lazy dog."`},
}

func qwen(b *testing.B) (*tokenizer.Tokenizer, *Vocabulary) {
	b.Helper()
	tok, err := tokenizer.Load(tokenizertest.Qwen3(b))
	require.NoError(b, err)
	v, err := NewVocabulary(tok, 151_936, tok.EOS())
	require.NoError(b, err)
	return tok, v
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkVocabulary builds the trie of Qwen3's tokens.
func BenchmarkVocabulary(b *testing.B) {
	tok, kept := qwen(b)
	before, began := heap(), cputime.Used()
	var v *Vocabulary
	for b.Loop() {
		v, _ = NewVocabulary(tok, 151_936, tok.EOS())
	}
	b.ReportMetric(float64((cputime.Used()-began).Milliseconds())/float64(b.N), "cpu-ms")
	b.ReportMetric(float64(heap()-before)/(1<<20), "MB")
	runtime.KeepAlive(v)
	runtime.KeepAlive(kept)
	runtime.KeepAlive(tok)
}

// BenchmarkMasks writes documents. The first one computes the masks of the states on its way; later ones of the same grammar reuse them.
func BenchmarkMasks(b *testing.B) {
	tok, v := qwen(b)
	mask := make([]uint32, v.words())
	for _, c := range benched {
		ids := tok.Encode(c.document)
		perToken := func(b *testing.B, began time.Duration) { // processor time, as other programs may run on the machine
			b.ReportMetric(float64((cputime.Used()-began).Microseconds())/float64(b.N*len(ids)), "cpu-µs/token")
		}
		write := func(g *Grammar) {
			s := g.Start()
			for _, id := range ids {
				s.Allow(mask)
				if mask[id/32]>>(id%32)&1 == 0 {
					b.Fatalf("%s refuses %q", c.name, v.texts[id])
				}
				s.Accept(id)
			}
			if !s.Complete() {
				b.Fatal(c.name)
			}
		}
		b.Run("first/"+c.name, func(b *testing.B) {
			before, grammars := heap(), []*Grammar{}
			began := cputime.Used()
			for b.Loop() {
				g, err := JSONSchema(v, json.RawMessage(c.schema))
				if err != nil {
					b.Fatal(err)
				}
				write(g)
				grammars = append(grammars[:0], g)
			}
			perToken(b, began)
			b.ReportMetric(float64(heap()-before)/1024, "KB")
			runtime.KeepAlive(grammars)
		})
		b.Run("later/"+c.name, func(b *testing.B) {
			g, err := JSONSchema(v, json.RawMessage(c.schema))
			if err != nil {
				b.Fatal(err)
			}
			write(g)
			began := cputime.Used()
			for b.Loop() {
				write(g)
			}
			perToken(b, began)
		})
	}
}
