package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sentencePiece is a small vocabulary with the components of the tokenizers of Llama 2, TinyLlama and Mistral, in every variant. The
// vectors are results of Hugging Face's tokenizers for JavaScript, 0.2.0: ids with special tokens parsed, and these decoded with (Decoded)
// and without special tokens (Said). That library does not let Metaspace split, so the vectors of that variant follow from its definition.
type sentencePiece struct {
	AddedTokens json.RawMessage `json:"added_tokens"`
	Model       json.RawMessage `json:"model"`
	Variants    []struct {
		Name         string          `json:"name"`
		Normalizer   json.RawMessage `json:"normalizer"`
		PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		Decoder      json.RawMessage `json:"decoder"`
		Vectors      []struct {
			Text          string
			IDs           []int32
			Decoded, Said string
		} `json:"vectors"`
	} `json:"variants"`
}

// variant is the tokenizer.json of variant i, after change.
func (s *sentencePiece) variant(t testing.TB, i int, change func(f object)) object {
	t.Helper()
	v, f := s.Variants[i], object{}
	for key, text := range map[string]json.RawMessage{"added_tokens": s.AddedTokens, "model": s.Model, "normalizer": v.Normalizer,
		"pre_tokenizer": v.PreTokenizer, "decoder": v.Decoder} {
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		f[key] = value
	}
	if change != nil {
		change(f)
	}
	return f
}

// variantNamed finds a variant by its name.
func (s *sentencePiece) variantNamed(t testing.TB, name string, change func(f object)) object {
	t.Helper()
	for i, v := range s.Variants {
		if v.Name == name {
			return s.variant(t, i, change)
		}
	}
	t.Fatal("no variant ", name)
	return nil
}

func readSentencePiece(t testing.TB) (s sentencePiece) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sentencepiece", "vectors.json"))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSentencePieceVectors(t *testing.T) {
	s := readSentencePiece(t)
	for i, v := range s.Variants {
		tok := charTokenizer(t, s.variant(t, i, nil))
		for _, w := range v.Vectors {
			if got := tok.EncodeSpecial(w.Text); !slices.Equal(got, w.IDs) {
				t.Errorf("%s: %q\n got %v\nwant %v", v.Name, w.Text, got, w.IDs)
			}
			if got := tok.EncodeQuoting(w.Text, nil); !slices.Equal(got, w.IDs) {
				t.Errorf("%s: %q with nobody's words\n got %v\nwant %v", v.Name, w.Text, got, w.IDs)
			}
			for skip, want := range map[bool]string{false: w.Decoded, true: w.Said} {
				if got := tok.Decode(w.IDs, skip); got != want {
					t.Errorf("%s: %q decoded to %q, expected %q", v.Name, w.Text, got, want)
				}
				stream, joined := tok.NewStream(skip), ""
				for range 2 { // the second text is like the first
					joined = ""
					for _, id := range w.IDs {
						joined += stream.Push(id)
					}
					joined += stream.Flush()
				}
				if joined != want {
					t.Errorf("%s: %q streamed as %q, expected %q", v.Name, w.Text, joined, want)
				}
			}
			if got := tok.Encode(w.Text); hasAdded(tok, got) {
				t.Errorf("%s: %q as somebody's text: got %v", v.Name, w.Text, got)
			} else if back := tok.Decode(got, true); v.Name == "legacy" && back != strings.ReplaceAll(w.Text, "▁", " ") {
				t.Errorf("%q comes back as %q", w.Text, back)
			}
		}
	}
}

// With the scheme first, only the beginning of the whole text gets the prefix, and not text after other tokens.
func TestOnlyTheFirstTextBegins(t *testing.T) {
	s := readSentencePiece(t)
	tok := charTokenizer(t, s.variantNamed(t, "first", nil))
	def, _ := tok.TokenID("▁def")
	if got := tok.Encode("def"); !slices.Equal(got, []int32{def}) {
		t.Errorf("alone: got %v", got)
	}
	if got, want := tok.AppendText([]int32{1}, "def"), tok.EncodeSpecial("<s>def"); !slices.Equal(got, want) || slices.Contains(got, def) {
		t.Errorf("behind a token: got %v, expected %v", got, want)
	}
	if got := upstreamIDs(t, tok.Upstream(), "def ab"); !slices.Equal(got, tok.Encode("def ab")) {
		t.Errorf("upstream: got %v", got)
	}
}

// A text that is empty after normalization has no tokens, at any position.
func TestNothingLeftHasNoTokens(t *testing.T) {
	s := readSentencePiece(t)
	tok := charTokenizer(t, s.variantNamed(t, "always", func(f object) {
		f["normalizer"] = object{"type": "Replace", "pattern": object{"String": "x"}, "content": ""}
	}))
	if got, want := tok.EncodeQuoting("a<s>x", nil), tok.EncodeSpecial("a<s>x"); !slices.Equal(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
}

// Special tokens that are matched after normalization include the prefix, as in Hugging Face's tokenizers.
func TestNormalizedTokensWithAnOpening(t *testing.T) {
	s := readSentencePiece(t)
	tok := charTokenizer(t, s.variant(t, 0, func(f object) {
		for _, a := range f["added_tokens"].([]any) {
			a.(map[string]any)["normalized"] = true
		}
	}))
	for text, want := range map[string]bool{"<s>def": true, "a<s>": false, "a <s>": true} {
		if got := slices.Contains(tok.EncodeSpecial(text), 1); got != want {
			t.Errorf("%q: special %t, expected %t", text, got, want)
		}
	}
	for _, text := range []string{"<s>def", "a<s>", "a <s>", "<s>ab def </s>ab", "def</s> <s>ab", " <s>"} {
		if got, want := tok.EncodeQuoting(text, nil), tok.EncodeSpecial(text); !slices.Equal(got, want) {
			t.Errorf("%q with nobody's words: got %v, expected %v", text, got, want)
		}
	}
	if got := tok.EncodeQuoting("ab </s>", []Span{{3, 7}}); slices.Contains(got, 2) {
		t.Errorf("of somebody's words: got %v", got)
	}
	if got := tok.EncodeQuoting("<s>def", []Span{{0, 6}}); slices.Contains(got, 1) {
		t.Errorf("somebody's words: got %v", got)
	}
}

// The Metaspace decoder turns ▁ into spaces, and drops it in the first token unless the scheme is never.
func TestMetaspaceDecoder(t *testing.T) {
	s := readSentencePiece(t)
	for scheme, want := range map[string]string{"always": "def  x ", "first": "def  x ", "never": " def  x "} {
		tok := charTokenizer(t, s.variantNamed(t, "always", func(f object) {
			f["decoder"] = object{"type": "Sequence", "decoders": []any{object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme},
				object{"type": "ByteFallback"}, object{"type": "Fuse"}}}
		}))
		id := func(name string) int32 {
			id, ok := tok.TokenID(name)
			if !ok {
				t.Fatal("no token ", name)
			}
			return id
		}
		bare := []int32{id("▁d"), id("e"), id("f"), id("▁"), id("▁"), id("x"), id("▁")}
		behind := append([]int32{id("<s>"), 1 << 20}, bare...)
		for _, c := range []struct {
			ids  []int32
			skip bool
			want string
		}{{bare, true, want}, {behind, true, want}, {behind, false, "<s> def  x "}, {[]int32{id("▁"), id("▁d")}, true, map[string]string{
			"always": " d", "first": " d", "never": "  d"}[scheme]}} {
			if got := tok.Decode(c.ids, c.skip); got != c.want {
				t.Errorf("%s: %v decoded to %q, expected %q", scheme, c.ids, got, c.want)
			}
			stream := tok.NewStream(c.skip)
			for range 2 {
				joined := ""
				for _, id := range c.ids {
					joined += stream.Push(id)
				}
				if joined += stream.Flush(); joined != c.want {
					t.Errorf("%s: %v streamed as %q, expected %q", scheme, c.ids, joined, c.want)
				}
			}
		}
	}
}

func TestOpeningsThatAreNone(t *testing.T) {
	s := readSentencePiece(t)
	pre := func(change map[string]any) func(object) {
		return func(f object) {
			for key, value := range change {
				f["pre_tokenizer"].(map[string]any)[key] = value
			}
		}
	}
	strip := func(change map[string]any) func(object) {
		return func(f object) {
			list := f["decoder"].(map[string]any)["decoders"].([]any)
			for key, value := range change {
				list[3].(map[string]any)[key] = value
			}
		}
	}
	for want, change := range map[string]func(object){
		`pre_tokenizer.replacement: found "", expected the character`:                      pre(map[string]any{"replacement": ""}),
		`pre_tokenizer.prepend_scheme: found "last", expected always, first or never`:      pre(map[string]any{"prepend_scheme": "last"}),
		`pre_tokenizer: found add_prefix_space false beside prepend_scheme "always"`:       pre(map[string]any{"add_prefix_space": false}),
		`decoder.decoders[3]: found a Strip of start 1, stop 1 and content " "; expected`:  strip(map[string]any{"stop": 1}),
		`decoder.decoders[3]: found a Strip of start 1, stop 0 and content "x"; expected`:  strip(map[string]any{"content": "x"}),
		`decoder.decoders[3]: found a Strip of start 1, stop 0 and content none; expected`: strip(map[string]any{"content": nil}),
		`normalizer.normalizers[1].type: found "Prepend", expected NFC, Replace, a Sequence of`: func(f object) {
			f["normalizer"] = object{"type": "Sequence", "normalizers": []any{object{"type": "NFC"}, object{"type": "Prepend", "prepend": "▁"}}}
		},
		`pre_tokenizer.pretokenizers[0].type: found "Metaspace"`: func(f object) {
			f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{f["pre_tokenizer"]}}
		},
	} {
		data, err := json.Marshal(s.variantNamed(t, "words", change))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
}
