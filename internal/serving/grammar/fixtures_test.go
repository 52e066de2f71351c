package grammar

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// pieces are the multi-byte tokens of the vocabulary of most tests, of the kinds that real vocabularies have.
var pieces = []string{
	`{"`, `":`, `": `, `": "`, `",`, `", "`, `"}`, `"]`, `}}`, `]}`, `}]`, `},`, `},{"`, `["`, `[]`, `{}`, `[[`, `"},`, `"`, `\"`, `\n`,
	`\u`, `\u00`, `\ud`, `\\`,
	"  ", "    ", "\n  ", ",\n", "{\n", "true", "false", "null", "tru", "ull", "name", "value", "a", "ab", "abc", "b\"",
	"10", "12", "00", "0.", "123", "-1", "e", "1e", "E+", "2024", "-0", "é", "日本",
	"\xe6\x97", "\xa5", "\xf0\x9f", "\x98\x80", "😀", "x\": ",
	"hello", " world", "the ", "T12:", "@", ".com", "::", "::1", "1.", "\"name", "call", "<tool", "_call>", "{\"name\":", "1,", "1]", "2}",
}

const (
	thoughtsEnd = "</think>"
	toolCall    = "<tool_call>"
	end         = "<|end|>"
)

// fixture is a vocabulary of every byte, the pieces, two added tokens, an end token, and rows without a token up to 400.
func fixture(t testing.TB) *Vocabulary {
	t.Helper()
	v := &Vocabulary{rows: 400, texts: make([]string, 400), added: map[string]int32{}}
	for b := range 256 {
		v.texts[b] = string([]byte{byte(b)})
	}
	n := 256 + copy(v.texts[256:], pieces)
	for _, s := range []string{thoughtsEnd, toolCall, end} {
		v.added[s] = int32(n)
		n++
	}
	v.said = []int32{v.added[thoughtsEnd], v.added[toolCall]}
	v.ends = []int32{v.added[end]}
	require.NoError(t, v.finish())
	return v
}

// allowed are the tokens of a mask.
func allowed(s *State) (ids []int32) {
	mask := make([]uint32, s.g.voc.words())
	s.Allow(mask)
	for id := range int32(s.g.voc.rows) {
		if mask[id/32]>>(id%32)&1 == 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

// walk draws tokens under the mask until the end. After `many` tokens it prefers tokens that close something.
func walk(t testing.TB, g *Grammar, rng *rand.Rand, many int) string {
	t.Helper()
	s := g.Start()
	var text []byte
	for n := 0; ; n++ {
		ids := allowed(s)
		require.NotEmpty(t, ids, "stuck after %q", text)
		id := ids[rng.IntN(len(ids))]
		if n > many {
			id = closing(g.voc, ids, id, rng)
		}
		complete := s.Complete()
		s.Accept(id)
		if id == g.voc.ends[0] {
			require.True(t, complete)
			require.True(t, s.Complete())
			return string(text)
		}
		require.Less(t, n, many+5000, "no end to %.300q", text)
		text = append(text, g.voc.texts[id]...)
	}
}

// closingChars are characters that end strings, containers and the patterns of the tests.
const closingChars = `"}]x1a0 `

// closing chooses a token that brings the text closer to its end.
func closing(v *Vocabulary, ids []int32, otherwise int32, rng *rand.Rand) int32 {
	if rng.IntN(4) == 0 {
		return otherwise
	}
	for _, i := range rng.Perm(len(closingChars)) {
		if slices.Contains(ids, int32(closingChars[i])) {
			otherwise = int32(closingChars[i])
		}
	}
	if slices.Contains(ids, v.ends[0]) {
		return v.ends[0]
	}
	return otherwise
}

// tokenize splits a text into tokens at random.
func tokenize(v *Vocabulary, text string, rng *rand.Rand) (ids []int32) {
	for len(text) > 0 {
		var fit []int32
		for id, token := range v.texts {
			if token != "" && len(token) <= len(text) && text[:len(token)] == token {
				fit = append(fit, int32(id))
			}
		}
		id := fit[rng.IntN(len(fit))]
		if rng.IntN(2) == 0 {
			id = fit[len(fit)-1] // the longest
		}
		ids = append(ids, id)
		text = text[len(v.texts[id]):]
	}
	return ids
}

// accepts reports whether a grammar accepts a text in a random tokenization, or what was refused where.
func accepts(g *Grammar, text string, rng *rand.Rand) (bool, string) {
	s := g.Start()
	mask := make([]uint32, g.voc.words())
	read := ""
	for _, id := range tokenize(g.voc, text, rng) {
		s.Allow(mask)
		if mask[id/32]>>(id%32)&1 == 0 {
			return false, read + "»" + g.voc.texts[id]
		}
		s.Accept(id)
		read += g.voc.texts[id]
	}
	return s.Complete(), read
}

func compiled(t testing.TB, v *Vocabulary, schema string) *Grammar {
	t.Helper()
	g, err := JSONSchema(v, json.RawMessage(schema))
	require.NoError(t, err, schema)
	return g
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
