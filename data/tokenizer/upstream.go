package tokenizer

import (
	"errors"
	"strings"
	"unicode/utf8"

	upstream "github.com/sugarme/tokenizer"
	"github.com/sugarme/tokenizer/normalizer"
)

// Upstream returns a tokenizer of github.com/sugarme/tokenizer with the normalizer, splitter, model and
// decoder of this package, for programs that are written for that library. It gives the ids of Encode for
// texts without special tokens: the library has no interface for those. Offsets are relative to the
// normalized text.
func (t *Tokenizer) Upstream() *upstream.Tokenizer {
	m := upstreamModel{t: t}
	if !t.spelling.byteLevel() {
		m.written = make([]string, t.VocabSize())
		for text, id := range t.bpe.vocab {
			m.written[id] = text
		}
	}
	u := upstream.NewTokenizer(m)
	if t.normalize != nil || t.prefix != (dummyPrefix{}) {
		u.WithNormalizer(upstreamNormalizer{t})
	}
	u.WithPreTokenizer(upstreamSplitter{t})
	u.WithDecoder(upstreamDecoder{t})
	return u
}

var (
	_ upstream.Model        = upstreamModel{}
	_ upstream.PreTokenizer = upstreamSplitter{}
	_ upstream.Decoder      = upstreamDecoder{}
	_ normalizer.Normalizer = upstreamNormalizer{}
)

type upstreamNormalizer struct{ t *Tokenizer }

func (n upstreamNormalizer) Normalize(text *normalizer.NormalizedString) (*normalizer.NormalizedString, error) {
	return normalizer.NewNormalizedFrom(n.t.prefix.apply(n.t.normalized(text.GetNormalized()), true)), nil
}

// upstreamSplitter splits the text and writes the pieces as the vocabulary does; a byte-level one writes them in the alphabet. It does both
// at once, because a second pre-tokenizer of that library would drop pieces that are tokens already.
type upstreamSplitter struct{ t *Tokenizer }

func (s upstreamSplitter) PreTokenize(text *upstream.PreTokenizedString) (*upstream.PreTokenizedString, error) {
	return text.Split(func(_ int, part *normalizer.NormalizedString) []upstream.SplitIdx {
		var pieces []upstream.SplitIdx
		start := 0
		s.t.split(part.GetNormalized(), func(piece string) {
			slice := part.Slice(normalizer.NewRange(start, start+len(piece), normalizer.NormalizedTarget))
			if s.t.spelling.byteLevel() {
				slice = slice.Transform(alphabetChanges(piece), 0)
			}
			pieces = append(pieces, upstream.SplitIdx{Normalized: slice})
			start += len(piece)
		})
		return pieces
	}), nil
}

// alphabetChanges lists, byte by byte, the characters that replace those of a piece: the first byte of a
// character replaces it, the others are insertions.
func alphabetChanges(piece string) []normalizer.ChangeMap {
	changes := make([]normalizer.ChangeMap, len(piece))
	for i := range len(piece) {
		changes[i].RuneVal = charOf[piece[i]]
		if !utf8.RuneStart(piece[i]) {
			changes[i].Changes = 1
		}
	}
	return changes
}

type upstreamModel struct {
	t       *Tokenizer
	written []string // how the vocabulary writes each token; nil if in the alphabet
}

// Tokenize merges one piece, which is written as the vocabulary writes it.
func (m upstreamModel) Tokenize(piece string) ([]upstream.Token, error) {
	text, _ := m.t.spelling.pieceForm(nil, piece)
	var tokens []upstream.Token
	start := 0
	for _, id := range m.t.bpe.appendPiece(nil, string(text)) {
		value, _ := m.IdToToken(int(id))
		tokens = append(tokens, upstream.NewToken(int(id), value, []int{start, start + len(value)}))
		start += len(value)
	}
	return tokens, nil
}

func (m upstreamModel) TokenToId(token string) (int, bool) {
	id, ok := m.t.TokenID(token)
	return int(id), ok
}

func (m upstreamModel) IdToToken(id int) (string, bool) {
	if id < 0 || id >= m.GetVocabSize() {
		return "", false
	}
	text, ok := m.t.Token(int32(id))
	if _, added := m.t.control[int32(id)]; added || !ok {
		return text, ok
	}
	if m.written != nil {
		return m.written[id], true
	}
	return toAlphabet(text), true
}

func (m upstreamModel) GetVocab() map[string]int {
	vocab := make(map[string]int, m.GetVocabSize())
	for id := range m.t.tokens {
		if text, ok := m.IdToToken(id); ok {
			vocab[text] = id
		}
	}
	return vocab
}

func (m upstreamModel) GetVocabSize() int { return m.t.VocabSize() }

// Save is not supported: the tokenizer.json that was loaded is the saved form.
func (m upstreamModel) Save(string, ...string) error {
	return errors.New("not saved: keep the tokenizer.json that was loaded")
}

type upstreamDecoder struct{ t *Tokenizer }

func (d upstreamDecoder) Decode(tokens []string) string {
	return ValidText(strings.Join(d.DecodeChain(tokens), ""))
}

// DecodeChain returns the bytes of each token.
func (d upstreamDecoder) DecodeChain(tokens []string) []string {
	texts := make([]string, len(tokens))
	for i, token := range tokens {
		texts[i] = token
		if id, ok := d.t.TokenID(token); ok {
			texts[i], _ = d.t.Token(id)
		}
	}
	return texts
}
