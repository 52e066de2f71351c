package grammar

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
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

// write feeds a grammar a text in which marks are added tokens, and reports whether all of it was allowed, and whether it is complete.
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
	for _, mark := range []string{toolCall, "<|call|>"} { // an added token, and plain text
		one := Sequence(Mark(mark), toolCallOf("</call>"))
		forced, err := Compile(v, Sequence(one, Repeat(Sequence(Text("\n"), one), 0, 1)))
		require.NoError(t, err)
		free, err := Compile(v, TextWith(mark, toolCallOf("</call>")))
		require.NoError(t, err)
		after, err := Compile(v, Sequence(Until(thoughtsEnd), Text("\n\n"), one))
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
			{free, true, true, []string{"I call", mark[:3], mark[3:], good, "</call>", "so"}},
			{free, false, false, []string{"I call", mark[:3], mark[3:], bad}},
			{after, true, true, []string{"hm </thi", "nk>", "\n\n", mark, good, "</call>"}},
			{after, false, false, []string{"hm </thi", "nk>", "well"}},
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
		ok, at := accepts(g, text, rng)
		require.Equal(t, want, ok, at)
	}
}

// A mask has exactly the tokens after which the text can be completed: the fast algorithm agrees with trying each token.
func TestMasksAreWhatCanBeAccepted(t *testing.T) {
	v := fixture(t)
	words, err := Compile(v, TextWith("<ab>", toolCallOf(thoughtsEnd)))
	require.NoError(t, err)
	grammars := []*Grammar{words}
	for seed := range tries(t) / 6 {
		d := schemaDrawer{random(1000 + seed)}
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

// After the end, or a token that was not allowed, only the end token is allowed.
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
	require.True(t, s.MustEnd())
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

// A model that nests without end is stopped by the limit of depth.
func TestDepth(t *testing.T) {
	v := fixture(t)
	for schema, opening := range map[string]string{
		`{"type":"array"}`: "[", `{"type":"object"}`: `{"a":`,
		`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},
			{"type":"array","items":{"type":"null"},"minItems":1}]}},"required":["a"]}`: `{"a":`,
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

// The tokens of a document by a published tokenizer are allowed, and so is what is drawn.
func TestPublishedVocabularies(t *testing.T) {
	if os.Getenv("GRPO_TEXTS") == "" {
		t.Skip("takes seconds; make texts")
	}
	for name, dir := range map[string]string{
		"Qwen3": tokenizertest.Qwen3(t), "Qwen2.5": tokenizertest.Qwen25(t),
		"Llama 3": tokenizertest.Llama3(t), "Gemma 2": tokenizertest.Gemma2(t),
	} {
		tok, err := tokenizer.Load(dir)
		require.NoError(t, err)
		ends := tok.EOS()
		v, err := NewVocabulary(tok, tok.VocabSize()+100, ends)
		require.NoError(t, err, name)
		for _, c := range benched {
			g, s := compiled(t, v, c.schema), (*State)(nil)
			for _, text := range []string{c.document, indented(t, c.document)} {
				s = g.Start()
				for _, id := range tok.Encode(text) {
					require.True(t, slices.Contains(allowed(s), id), "%s: %d %q of %s", name, id, v.texts[id], text)
					s.Accept(id)
				}
				require.True(t, s.Complete(), text)
			}
			s, rng, ids := g.Start(), random(1), []int32(nil)
			for range 60 {
				may := allowed(s)
				id := may[rng.IntN(len(may))]
				ids = append(ids, id)
				s.Accept(id)
			}
			require.NotContains(t, tok.Decode(ids[:1], false), "\uFFFD", name)
		}
	}
}

func indented(t *testing.T, document string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, []byte(document), "", "  "))
	return out.String()
}

// A grammar can be used concurrently, with the same masks.
func TestTogether(t *testing.T) {
	g := compiled(t, fixture(t), benched[1].schema)
	alone := make([]string, 4)
	for i := range alone {
		alone[i] = walk(t, g, random(uint64(i)), 30)
	}
	g = compiled(t, g.voc, benched[1].schema)
	var wait sync.WaitGroup
	for i := range alone {
		wait.Go(func() {
			if got := walk(t, g, random(uint64(i)), 30); got != alone[i] {
				t.Errorf("found %q, expected %q", got, alone[i])
			}
		})
	}
	wait.Wait()
}
