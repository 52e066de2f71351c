package tokenizer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// charFile is a tokenizer of Gemma's kind: characters, byte fallback, and some random merges.
func charFile(r *rand.Rand, merges int) object {
	vocab := object{}
	add := func(token string) { vocab[token] = len(vocab) }
	for _, token := range []string{"<pad>", "<end>", "\n", "\t", "▁", "a", "b", "c", "é"} {
		add(token)
	}
	for b := range 256 {
		add(byteName(b))
	}
	parts := []string{"\n", "▁", "a", "b", "c", "é"}
	var list []any
	seen := map[string]bool{}
	for len(list) < merges {
		left, right := parts[r.IntN(len(parts))], parts[r.IntN(len(parts))]
		if seen[left+" "+right] || len(left+right) > 12 {
			continue
		}
		seen[left+" "+right] = true
		if _, ok := vocab[left+right]; !ok {
			add(left + right)
			parts = append(parts, left+right)
		}
		list = append(list, left+" "+right)
	}
	add("<h1>")
	add("\n\n\n")
	return object{
		"added_tokens": []any{
			object{"id": 1, "content": "<end>", "special": true},
			object{"id": vocab["<h1>"], "content": "<h1>", "special": false},
			object{"id": vocab["\n\n\n"], "content": "\n\n\n", "special": false},
			object{"id": len(vocab), "content": "<call>", "special": false},
		},
		"normalizer":    object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"},
		"pre_tokenizer": object{"type": "Split", "pattern": object{"String": " "}, "behavior": "MergedWithPrevious", "invert": false},
		"decoder": object{"type": "Sequence", "decoders": []any{
			object{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "}, object{"type": "ByteFallback"}, object{"type": "Fuse"},
		}},
		"model": object{"type": "BPE", "byte_fallback": true, "vocab": vocab, "merges": list},
	}
}

func charTokenizer(t testing.TB, f object) *Tokenizer {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Merging a text in parts between seams gives the tokens of the definition: repeatedly the earliest merge in the whole text, the leftmost
// if it applies more than once.
func TestSeams(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	for range 20 {
		tok := charTokenizer(t, charFile(r, 5+r.IntN(60)))
		if tok.bpe.seams == nil {
			t.Fatal("the tokenizer has no seams")
		}
		for range 100 {
			var text strings.Builder
			for range r.IntN(40) {
				text.WriteString([]string{" ", "a", "b", "c", "é", "\n", "z", "日", "😀"}[r.IntN(9)])
			}
			plain := strings.ReplaceAll(text.String(), "\n\n\n", "\n\na")
			want := mergeByDefinition(tok.bpe, strings.ReplaceAll(plain, " ", "▁"))
			if got := tok.Encode(plain); !slices.Equal(got, want) {
				t.Fatalf("%q: got %v, expected %v", plain, got, want)
			}
		}
		long := strings.Repeat("ab é", 100)
		if got, want := tok.Encode(long), mergeByDefinition(tok.bpe, strings.ReplaceAll(long, " ", "▁")); !slices.Equal(got, want) {
			t.Fatalf("a long text: got %v, expected %v", got, want)
		}
	}
}

func mergeByDefinition(b *bpe, text string) []int32 {
	symbols := b.appendSymbols(nil, text)
	for {
		at, best := -1, int32(noRank)
		for i := range max(len(symbols)-1, 0) {
			if rank := b.pairs.rank(symbols[i], symbols[i+1]); rank < best {
				at, best = i, rank
			}
		}
		if at < 0 {
			return symbols
		}
		symbols = slices.Replace(symbols, at, at+2, b.made[best])
	}
}

// Every character of the vocabulary is encoded as its token, the first id included.
func TestCharactersWithATokenOfTheirOwn(t *testing.T) {
	f := charFile(rand.New(rand.NewPCG(4, 0)), 10)
	vocab := f["model"].(object)["vocab"].(object)
	vocab["あ"] = vocab["<pad>"]
	delete(vocab, "<pad>")
	vocab["😀"] = len(vocab) + 1
	want := []int32{0, int32(len(vocab)), 0}
	if ids := charTokenizer(t, f).Encode("あ😀あ"); !slices.Equal(ids, want) {
		t.Errorf("got %v, expected %v", ids, want)
	}
}

func TestByteFallback(t *testing.T) {
	tok := charTokenizer(t, charFile(rand.New(rand.NewPCG(4, 0)), 10))
	ids := tok.Encode("é日😀")
	if len(ids) != 1+3+4 {
		t.Errorf("got %v, expected a token for é and one for each byte of the others", ids)
	}
	s := tok.NewStream(true)
	var pushed []string
	for _, id := range ids {
		pushed = append(pushed, s.Push(id))
	}
	if want := []string{"é", "", "", "日", "", "", "", "😀"}; !slices.Equal(pushed, want) || s.Flush() != "" {
		t.Errorf("streamed %q, expected %q", pushed, want)
	}
	for text, want := range map[string]string{"<0x0A>": "<0x0A>", "a ▁b": "a  b", "\n": "\n", "<end>": "<end>"} {
		if got := tok.Decode(tok.Encode(text), false); got != want {
			t.Errorf("%q comes back as %q", text, got)
		}
	}
}

// An added token that is in the vocabulary and not special, or all blank, matches its text in any input; other added tokens do not.
func TestOrdinaryAddedTokens(t *testing.T) {
	tok := charTokenizer(t, charFile(rand.New(rand.NewPCG(5, 0)), 10))
	h1, _ := tok.TokenID("<h1>")
	feeds, _ := tok.TokenID("\n\n\n")
	call, _ := tok.TokenID("<call>")
	const text = "<h1>\n\n\n<call><end>"
	if got := tok.EncodeSpecial(text); !slices.Equal(got, []int32{h1, feeds, call, 1}) {
		t.Errorf("meant as they are: got %v", got)
	}
	got := tok.Encode(text)
	if !slices.Equal(got[:2], []int32{h1, feeds}) || slices.Contains(got, call) || slices.Contains(got, 1) || tok.Decode(got, false) != text {
		t.Errorf("somebody's text: got %v", got)
	}
	at := strings.Index(text, "<call>")
	for _, quoted := range []Span{{at, at + 6}, {at - 1, at + 1}, {at + 5, at + 6}, {0, len(text)}} {
		if got := tok.EncodeQuoting(text, []Span{quoted}); slices.Contains(got, call) {
			t.Errorf("%v quoted: got %v", quoted, got)
		}
	}
	if got := tok.EncodeQuoting(text, []Span{{0, at}, {at + 6, len(text)}}); !slices.Contains(got, call) || slices.Contains(got, 1) {
		t.Errorf("quoted on both sides: got %v", got)
	}
}

var damagedCharFiles = map[string]struct {
	change func(f object)
	want   string
}{
	"unigram": {func(f object) {
		f["model"] = object{"type": "Unigram", "unk_id": 0, "vocab": []any{[]any{"a", -1.5}}}
	}, `model.type: found "Unigram", expected BPE`},
	"word pieces": {func(f object) {
		f["model"] = object{"type": "WordPiece", "unk_token": "[UNK]", "vocab": object{"a": 0}}
	}, `model.type: found "WordPiece", expected BPE`},
	"no fallback": {func(f object) { f["model"].(object)["byte_fallback"] = false },
		"model.byte_fallback: found false beside a ByteFallback decoder, expected true"},
	"a byte is missing": {func(f object) { delete(f["model"].(object)["vocab"].(object), "<0xE6>") },
		`model.vocab: no token "<0xE6>", which byte_fallback needs`},
	"byte level": {func(f object) { f["pre_tokenizer"] = object{"type": "ByteLevel", "add_prefix_space": false} },
		`pre_tokenizer.type: found "ByteLevel" beside a decoder of type "Sequence"`},
	"bert": {func(f object) { f["pre_tokenizer"] = object{"type": "BertPreTokenizer"} },
		`pre_tokenizer.type: found "BertPreTokenizer", expected ByteLevel`},
	"replace nothing":      {func(f object) { delete(f["normalizer"].(object), "pattern") }, "normalizer.pattern.String: missing"},
	"replace by nothing":   {func(f object) { delete(f["normalizer"].(object), "content") }, "normalizer.content: missing"},
	"strip alone":          {decoders(object{"type": "Strip", "content": " ", "start": 1}), `decoder: found "Strip" after the replacements`},
	"metaspace of nothing": {decoders(object{"type": "Metaspace"}), `decoder.decoders[0].replacement: found "", expected the character`},
	"metaspace late": {decoders(object{"type": "ByteFallback"}, object{"type": "Metaspace", "replacement": "▁"}),
		"decoder.decoders[1]: found Metaspace after ByteFallback"},
	"no fallback decoder": {decoders(object{"type": "Fuse"}), `decoder: found "Fuse" after the replacements`},
	"replace late": {decoders(object{"type": "ByteFallback"}, object{"type": "Replace", "pattern": object{"String": "a"}, "content": ""}),
		"decoder.decoders[1]: found Replace after ByteFallback"},
	"split away": {func(f object) { f["pre_tokenizer"].(object)["behavior"] = "Removed" }, `found behavior "Removed"`},
}

func decoders(list ...any) func(object) {
	return func(f object) { f["decoder"].(object)["decoders"] = list }
}

func TestDamagedCharFiles(t *testing.T) {
	for name, tc := range damagedCharFiles {
		f := charFile(rand.New(rand.NewPCG(6, 0)), 3)
		tc.change(f)
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(data); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, expected %q", name, err, tc.want)
		}
	}
}

// Upstream's pipeline gives the same ids for a vocabulary of characters, too.
func TestUpstreamOfCharacters(t *testing.T) {
	tok := charTokenizer(t, charFile(rand.New(rand.NewPCG(7, 0)), 20))
	for _, text := range []string{"a", "ab c", "cab é\nz 日"} {
		if got, want := upstreamIDs(t, tok.Upstream(), text), tok.Encode(text); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %v, expected %v", text, got, want)
		}
	}
}
