package grammar

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// toolCallOf is the grammar of a call of one of two functions.
func toolCallOf(mark string) Part {
	arguments := func(name, schema string) Part {
		return Sequence(Text(`{"name": "`+name+`", "arguments": `), Schema(json.RawMessage(schema)), Text("}"))
	}
	return Sequence(Text("\n"), Choice(
		arguments("add", `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`),
		arguments("say", `{"type":"object","properties":{"text":{"type":"string"}}}`),
	), Text("\n"), Mark(mark))
}

// write gives a grammar a text in which marks are added tokens, and tells whether all of it was allowed, and whether it is whole.
func write(t *testing.T, g *Grammar, parts ...string) (fits, complete bool) {
	t.Helper()
	s, rng := g.Start(), random(5)
	for _, part := range parts {
		ids := []int32{g.voc.added[part]}
		if ids[0] == 0 {
			ids = tokenize(g.voc, part, rng)
		}
		for _, id := range ids {
			if !slices.Contains(allowed(s), id) {
				return false, false
			}
			s.Accept(id)
		}
	}
	return true, s.Complete()
}

func TestCalls(t *testing.T) {
	v := fixture(t)
	const good, bad = "\n{\"name\": \"add\", \"arguments\": {\"a\": 12}}\n", "\n{\"name\": \"say\", \"arguments\": {\"a\": 12}}\n"
	for _, mark := range []string{toolCall, "<|call|>"} { // an added token, and a text
		forced, err := Compile(v, Sequence(Mark(mark), toolCallOf("</call>"), Repeat(Sequence(Text("\n"), Mark(mark), toolCallOf("</call>")), 0, 1)))
		require.NoError(t, err)
		free, err := Compile(v, Words(mark, toolCallOf("</call>")))
		require.NoError(t, err)
		after, err := Compile(v, Sequence(Until(thoughtsEnd), Text("\n\n"), Mark(mark), toolCallOf("</call>")))
		require.NoError(t, err)
		for _, c := range []struct {
			g              *Grammar
			fits, complete bool
			parts          []string
		}{
			{forced, true, true, []string{mark, good, "</call>"}},
			{forced, true, true, []string{mark, good, "</call>", "\n", mark, good, "</call>"}},
			{forced, false, false, []string{mark, good, "</call>", "\n", mark, good, "</call>", "\n"}},
			{forced, true, false, []string{mark, good}},
			{forced, false, false, []string{mark, bad}},
			{forced, false, false, []string{"well"}},
			{free, true, true, nil},
			{free, true, true, []string{"well, <|ca", thoughtsEnd, "ll|> <tool_cal", "\xff\xfe"}},
			{free, true, true, []string{"I call", mark, good, "</call>", "and again", mark, good, "</call>"}},
			{free, true, false, []string{"I call", mark, "\n{\"na"}},
			{free, false, false, []string{"I call", mark, bad}},
			{after, true, true, []string{"hm\n", toolCall, thoughtsEnd, "\n\n", mark, good, "</call>"}},
			{after, false, false, []string{"hm\n", thoughtsEnd, "well"}},
			{after, true, false, []string{"hm\n"}},
		} {
			fits, complete := write(t, c.g, c.parts...)
			require.Equal(t, c.fits, fits, "%q", c.parts)
			require.Equal(t, c.complete, complete, "%q", c.parts)
		}
	}
}

func TestRegex(t *testing.T) {
	v, rng := fixture(t), random(1)
	g, err := Regex(v, `(yes|no)( [日\u00e9]+)?`)
	require.NoError(t, err)
	for text, want := range map[string]bool{"yes": true, "no 日é日": true, "": false, "yes ": false, "maybe": false, "yes a": false} {
		ok, at := takes(g, text, rng)
		require.Equal(t, want, ok, at)
	}
}

// A mask has just the tokens after which there is a way on, for whatever has been written: the quick way to find them agrees
// with trying each.
func TestMasksAreWhatCanBeAccepted(t *testing.T) {
	v := fixture(t)
	words, err := Compile(v, Words("<ab>", toolCallOf(thoughtsEnd)))
	require.NoError(t, err)
	grammars := []*Grammar{words}
	for seed := range tries(t) / 6 {
		d := drawer{random(1000 + seed)}
		text, err := json.Marshal(d.schema(3).schema)
		require.NoError(t, err)
		grammars = append(grammars, compiled(t, v, string(text)))
	}
	for i, g := range grammars {
		rng, s := random(uint64(i)), g.Start()
		for range 25 {
			ids := allowed(s)
			for id := range int32(v.rows) {
				tried := *s
				tried.readings = slices.Clone(s.readings)
				tried.Accept(id)
				alive := len(tried.readings) > 0 || tried.accepts
				require.Equal(t, alive, slices.Contains(ids, id), "%d %q", id, v.texts[id])
			}
			id := ids[rng.IntN(len(ids))]
			if s.Accept(id); id == v.ends[0] {
				break
			}
		}
	}
}

// After the end, or a token that was not allowed, only the end may come.
func TestTheEnd(t *testing.T) {
	v := fixture(t)
	g := compiled(t, v, `{"const":[1]}`)
	s := g.Start()
	for _, b := range "[1]" {
		require.False(t, s.Complete())
		require.NotContains(t, allowed(s), v.ends[0])
		s.Accept(b)
	}
	require.True(t, s.Complete())
	require.True(t, s.Over())
	require.Equal(t, v.ends, allowed(s))
	s.Accept(v.ends[0])
	require.True(t, s.Complete())
	require.Equal(t, v.ends, allowed(s))

	for _, wrong := range []int32{'x', v.ends[0], 399, -1, 4000} {
		s = g.Start()
		s.Accept('[')
		s.Accept(wrong)
		require.False(t, s.Complete())
		require.Equal(t, v.ends, allowed(s))
	}
}

// A model that nests without end is brought to one.
func TestDepth(t *testing.T) {
	v := fixture(t)
	for schema, opening := range map[string]string{
		`{"type":"array"}`: "[", `{"type":"object"}`: `{"a":`,
		`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"array","items":{"type":"null"},"minItems":1}]}},"required":["a"]}`: `{"a":`,
	} {
		g := compiled(t, v, schema)
		s, text, turns := g.Start(), "", 0
		mask := make([]uint32, v.words())
		for ; len(text) < 10_000; turns++ {
			b := int32(opening[len(text)%len(opening)])
			if s.Allow(mask); mask[b/32]>>(b%32)&1 == 0 {
				break
			}
			s.Accept(b)
			text += string(rune(b))
		}
		require.Greater(t, strings.Count(text, opening[:1]), deepest/2)
		require.Less(t, strings.Count(text, opening[:1]), 2*deepest)
		for rng := random(1); !s.Complete(); {
			id := closing(v, allowed(s), allowed(s)[0], rng)
			s.Accept(id)
			text += v.texts[id]
			require.Less(t, len(text), 20_000, "%s", text)
		}
		_, err := parse(text)
		require.NoError(t, err)
	}
}

// hostile are schemas that cost much, or would if nothing held them.
var hostile = map[string]string{
	"deep":         strings.Repeat(`{"items":`, 90) + `{}` + strings.Repeat("}", 90),
	"items":        `{"items":{"items":{"items":{"maxItems":4096},"minItems":4096},"minItems":4096},"minItems":4096}`,
	"product":      `{"allOf":[` + strings.Repeat(`{"anyOf":[{"minimum":1},{"maximum":2},{"minLength":3}]},`, 20) + `{}]}`,
	"pattern":      `{"pattern":"(a|b)*a(a|b){20}"}`,
	"patterns":     `{"anyOf":[` + strings.Repeat(`{"pattern":"\\pL{100}\\d{100}[^x]{50}"},`, 200) + `{}]}`,
	"repeat":       `{"pattern":"((a{0,100}){0,100}){0,100}"}`,
	"lengths":      `{"pattern":"^(ab|a|b){0,90}$","minLength":1,"maxLength":9000}`,
	"pointers":     `{"$defs":{` + chain(3000) + `"x3000":{"type":"null"}},"$ref":"#/$defs/x0"}`,
	"nesting":      `{"$defs":{` + nested(3000) + `"x3000":{"type":"null"}},"$ref":"#/$defs/x0"}`,
	"ambiguous":    `{"anyOf":[` + alike(300) + `{"type":"null"}]}`,
	"itself":       `{"anyOf":[{"$ref":"#"},{"allOf":[{"$ref":"#"},{"type":"null"}]},{"items":{"$ref":"#"}}]}`,
	"names":        `{"properties":{` + strings.TrimSuffix(names(5000), ",") + `},"additionalProperties":true}`,
	"enum":         `{"enum":[` + strings.Repeat(`"abcdefghijklmnopqrstuvwxyz",`, 20000) + `1]}`,
	"limit":        `{"minimum":1e-60,"maximum":1e60,"multipleOf":1000,"type":"integer"}`,
	"multiples":    `{"allOf":[` + strings.Repeat(`{"multipleOf":997},{"multipleOf":991},`, 9) + `{}]}`,
	"unicode":      `{"pattern":"` + strings.Repeat(`[\\pL\\pN]?`, 200) + `"}`,
	"long":         `{"const":"` + strings.Repeat("a", 900_000) + `"}`,
	"longest name": `{"properties":{"` + strings.Repeat("a", 90_000) + `":{"not":{}}}}`,
}

func chain(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`"x%d":{"$ref":"#/$defs/x%d"},`, i, i+1)
	}
	return text
}

func nested(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`"x%d":{"items":{"$ref":"#/$defs/x%d"},"minItems":1},`, i, i+1)
	}
	return text
}

func alike(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`{"properties":{"a":{"$ref":"#"},"b%d":{"type":"null"}}},`, i)
	}
	return text
}

func names(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`"name %d":{"type":"string"},`, i)
	}
	return text
}

// Whatever a schema asks for, it is answered within a second and 64 MB: by a grammar, some of which can be walked, or by an error
// of one line.
func TestHostileSchemas(t *testing.T) {
	v := fixture(t)
	for name, schema := range hostile {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		g, err := JSONSchema(v, json.RawMessage(schema))
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		t.Logf("%-12s %6d ms %4d MB kept, %4d MB allocated: %.120v", name, took.Milliseconds(), int64(after.HeapAlloc-before.HeapAlloc)>>20,
			(after.TotalAlloc-before.TotalAlloc)>>20, err)
		require.Less(t, took, 5*time.Second, name) // a second where nothing else runs
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 600)
			continue
		}
		s, rng := g.Start(), random(1)
		for range 8 {
			ids := allowed(s)
			require.NotEmpty(t, ids, name)
			s.Accept(ids[rng.IntN(len(ids))])
		}
	}
}

// FuzzSchema: any schema is refused in one line, or gives a grammar whose documents are JSON.
func FuzzSchema(f *testing.F) {
	for _, c := range documents {
		f.Add(c.schema, uint64(1))
	}
	v := fixture(f)
	f.Fuzz(func(t *testing.T, schema string, seed uint64) {
		g, err := JSONSchema(v, json.RawMessage(schema))
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		s, rng := g.Start(), random(seed)
		var text []byte
		for range 100 {
			ids := allowed(s)
			require.NotEmpty(t, ids, "%s: stuck after %q", schema, text)
			id := closing(v, ids, ids[rng.IntN(len(ids))], rng)
			if s.Accept(id); id == v.ends[0] {
				require.True(t, json.Valid(text), "%s: %q", schema, text)
				return
			}
			text = append(text, v.texts[id]...)
		}
	})
}

func TestVocabulary(t *testing.T) {
	tok, err := tokenizer.Load("../../../data/tokenizer/testdata/small")
	require.NoError(t, err)
	ends := tok.EOS()
	require.NotEmpty(t, ends)
	v, err := NewVocabulary(tok, tok.VocabSize()+7, ends)
	require.NoError(t, err)
	g := compiled(t, v, `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"]}`)
	for _, text := range []string{`{"name": "é日本", "age": 3}`, "{\n  \"name\": \"a\"\n}"} {
		s := g.Start()
		for _, id := range tok.Encode(text) {
			require.Contains(t, allowed(s), id)
			s.Accept(id)
		}
		require.True(t, s.Complete())
		require.Equal(t, ends, allowed(s))
	}
	_, err = NewVocabulary(tok, tok.VocabSize(), nil)
	require.ErrorContains(t, err, "eos_token_id")
	_, err = NewVocabulary(tok, 200, []int32{3})
	require.ErrorContains(t, err, "no token for the byte 0x")
	_, err = NewVocabulary(tok, 300, []int32{300})
	require.ErrorContains(t, err, "end token 300 is not one of the model's 300")
}
