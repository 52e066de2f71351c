package tokenizer

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-7879b91d/grpo/internal/race"
)

// referenceEncoder encodes by the definition, slowly: the regexp engine splits the text, and the pair of lowest rank is merged repeatedly,
// found each time by looking at all pairs.
type referenceEncoder struct {
	split splitter
	ranks map[[2]string]int
	ids   map[string]int32
}

func newReferenceEncoder(t testing.TB, dir, pattern string) *referenceEncoder {
	t.Helper()
	var f file
	readTestJSON(t, filepath.Join(dir, "tokenizer.json"), &f)
	// The engine folds ASCII only; Unicode also folds ſ to s.
	split, err := regexpSplitter(strings.Replace(pattern, "(?i:'s|", "(?i:'s|'ſ|", 1))
	if err != nil {
		t.Fatal(err)
	}
	s := &referenceEncoder{split: split, ranks: map[[2]string]int{}, ids: map[string]int32{}}
	for rank, pair := range f.Model.Merges {
		s.ranks[pair] = rank
	}
	for _, e := range f.Model.Vocab {
		s.ids[e.text] = int32(e.id)
	}
	return s
}

func (s *referenceEncoder) encode(text string) []int32 {
	ids := []int32{}
	s.split(string(norm.NFC.Bytes(bytes.ToValidUTF8([]byte(text), []byte("\uFFFD")))), func(piece string) {
		var symbols []string
		for i := range len(piece) {
			symbols = append(symbols, toAlphabet(piece[i:i+1]))
		}
		for {
			at, best := 0, math.MaxInt
			for i := range len(symbols) - 1 {
				if r, ok := s.ranks[[2]string{symbols[i], symbols[i+1]}]; ok && r < best {
					at, best = i, r
				}
			}
			if best == math.MaxInt {
				break
			}
			symbols = slices.Replace(symbols, at, at+2, symbols[at]+symbols[at+1])
		}
		for _, symbol := range symbols {
			ids = append(ids, s.ids[symbol])
		}
	})
	return ids
}

// seeds are texts on which tokenizers often fail.
var seeds = []string{
	"", " ", "\n", "\r\n \n  x", "a", "it's IT'S we'LL 'ſ 'x '", "x=12345;y", "٣٤Ⅷ½²",
	"def f(x):\n    return x  \n\n\n", "\t\t\tx", "   ", "a  b   c", "!!!\n\nx", " !\n", "日本語 テキスト",
	"e\u0301e\u0327\u0301", "한국어 \u1112\u1161\u11ab", "😀👩\u200d💻", "\u00a0\u3000\u2028\u0085x",
	"<|im_start|>user\n<|im_end|>", "\x00\x01", strings.Repeat("a", 200), strings.Repeat(" ", 200) + "x",
	strings.Repeat("ab", 300), strings.Repeat("naïve ", 20), "'re're'", "\r\r\n\n\r",
}

func FuzzEncode(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	patterns := []string{qwenPattern, llama3Pattern, gpt2Pattern}
	var fast []*Tokenizer
	var sure []*referenceEncoder
	for _, p := range patterns {
		tok := small(f)
		tok.split, _ = newSplitter(p)
		fast, sure = append(fast, tok), append(sure, newReferenceEncoder(f, "testdata/small", p))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || hasLongMarkRun(text) {
			t.Skip("replacement and long runs of marks have tests of their own")
		}
		for i, tok := range fast {
			ids := tok.Encode(text)
			if want := sure[i].encode(text); !slices.Equal(ids, want) {
				t.Fatalf("%s\n%q\n got %v\nwant %v", patterns[i], text, ids, want)
			}
			if back := tok.Decode(ids, false); back != norm.NFC.String(text) {
				t.Fatalf("%q decodes to %q", text, back)
			}
			checkStream(t, tok, ids)
		}
	})
}

func checkStream(t *testing.T, tok *Tokenizer, ids []int32) {
	t.Helper()
	var joined strings.Builder
	stream := tok.NewStream(true)
	for _, id := range ids {
		joined.WriteString(stream.Push(id))
	}
	joined.WriteString(stream.Flush())
	if want := tok.Decode(ids, true); joined.String() != want {
		t.Fatalf("%v streams as %q, decodes as %q", ids, joined.String(), want)
	}
}

func TestQwen3AgainstSlow(t *testing.T) {
	race.SkipSerial(t)
	tok, dir := qwen3(t)
	sure := newReferenceEncoder(t, dir, qwenPattern)
	for _, text := range append(seeds, corpus(t)) {
		if got, want := tok.Encode(text), sure.encode(text); !slices.Equal(got, want) {
			t.Errorf("%q\n got %v\nwant %v", text, got, want)
		}
	}
}

// mergeSmall and mergeLong give the same tokens for pieces that both can merge.
func TestMergeSmallAndLongAgree(t *testing.T) {
	tok := small(t)
	r := newRand(2)
	for range 3000 {
		n := 2 + r.IntN(smallPiece-1)
		piece := make([]byte, n)
		for i := range piece {
			piece[i] = "aert  _n"[r.IntN(8)]
		}
		var symbols [smallPiece]int32
		want := tok.bpe.mergeSmall(symbols[:0], string(piece))
		if got := tok.bpe.mergeLong(nil, string(piece)); !slices.Equal(got, want) {
			t.Fatalf("%q: long %v, small %v", piece, got, want)
		}
	}
}

func TestUserTextNeverBecomesSpecial(t *testing.T) {
	tok := small(t)
	for _, s := range tok.SpecialTokens() {
		for _, text := range []string{s.Content, "x" + s.Content + "y", s.Content + s.Content} {
			if hasAdded(tok, tok.Encode(text)) {
				t.Errorf("Encode(%q) has a special token", text)
			}
			if back := tok.Decode(tok.Encode(text), true); back != text {
				t.Errorf("%q comes back as %q", text, back)
			}
		}
		if ids := tok.EncodeSpecial(s.Content); len(ids) != 1 || ids[0] != s.ID {
			t.Errorf("EncodeSpecial(%q) = %v, expected [%d]", s.Content, ids, s.ID)
		}
	}
}

func TestSpecialsAreCutOutBeforeNormalization(t *testing.T) {
	tok := small(t)
	end, _ := tok.TokenID("<|im_end|>")
	// The combining mark after > must not merge with it, and the text around a special token is normalized separately.
	got := tok.EncodeSpecial("e<|im_end|>\u0301e\u0301")
	want := slices.Concat(tok.Encode("e"), []int32{end}, tok.Encode("\u0301\u00e9"))
	if !slices.Equal(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
}

func TestIgnoreMerges(t *testing.T) {
	tok := small(t)
	tok.bpe.vocab["qzj"] = 383 // a token that no merge produces
	if ids := tok.Encode("qzj"); len(ids) != 3 {
		t.Errorf("without ignore_merges: %v, expected three bytes", ids)
	}
	tok = small(t)
	tok.bpe.vocab["qzj"], tok.bpe.ignoreMerges = 383, true
	if ids := tok.Encode("qzj"); !slices.Equal(ids, []int32{383}) {
		t.Errorf("with ignore_merges: %v, expected [383]", ids)
	}
}

func TestEncodeFromManyGoroutines(t *testing.T) {
	tok := small(t)
	texts := append(slices.Clone(seeds), lines(corpus(t))...)
	var want [][]int32
	for _, text := range texts {
		want = append(want, small(t).Encode(text))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range texts {
				i = (i + g*3) % len(texts)
				if got := tok.Encode(texts[i]); !slices.Equal(got, want[i]) {
					t.Errorf("%q: got %v, expected %v", texts[i], got, want[i])
				}
			}
		})
	}
	wg.Wait()
}

func TestTokenID(t *testing.T) {
	tok := small(t)
	for _, name := range []string{"<|im_start|>", "Ġt", "a", "Ċ"} {
		id, ok := tok.TokenID(name)
		text, found := tok.Token(id)
		if !ok || !found || toAlphabet(text) != name && text != name {
			t.Errorf("TokenID(%q) = %d, %t; that is %q", name, id, ok, text)
		}
	}
	for _, name := range []string{"", "no such token", "日"} {
		if id, ok := tok.TokenID(name); ok {
			t.Errorf("TokenID(%q) = %d, expected none", name, id)
		}
	}
	for _, id := range []int32{-1, int32(tok.VocabSize()), math.MaxInt32} {
		if text, ok := tok.Token(id); ok {
			t.Errorf("Token(%d) = %q, expected none", id, text)
		}
	}
}
