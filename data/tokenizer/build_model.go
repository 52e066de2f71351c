package tokenizer

import (
	"errors"
	"fmt"
	"hash/maphash"
)

// supported refuses models of other types, and settings that this package does not implement.
func (m *model) supported(s *spelling) error {
	switch {
	case m.Type != "BPE" && m.Type != "": // files as old as GPT-2 have no type
		return fmt.Errorf("model.type: found %q, expected BPE", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model.dropout: found %g, expected null", *m.Dropout)
	case m.ContinuingSubwordPrefix != nil && *m.ContinuingSubwordPrefix != "":
		return fmt.Errorf("model.continuing_subword_prefix: found %q, expected none", *m.ContinuingSubwordPrefix)
	case m.EndOfWordSuffix != nil && *m.EndOfWordSuffix != "":
		return fmt.Errorf("model.end_of_word_suffix: found %q, expected none", *m.EndOfWordSuffix)
	case len(m.Vocab) == 0:
		return errors.New("model.vocab: missing or empty")
	case m.Merges == nil:
		return errors.New("model.merges: missing")
	}
	return s.checkFallback(m.ByteFallback)
}

// build makes the merge tables and the text of each id.
func (m *model) build(s *spelling) (*bpe, []string, error) {
	b := &bpe{
		vocab:        make(map[string]int32, len(m.Vocab)),
		ignoreMerges: m.IgnoreMerges,
	}
	b.cache.seed = maphash.MakeSeed()
	tokens, err := m.readVocab(b, s)
	if err != nil {
		return nil, nil, err
	}
	for c := range b.byteID {
		id, ok := b.vocab[s.byteToken(c)]
		if _, asItIs := b.vocab[string([]byte{byte(c)})]; !ok && inUTF8(c) && !asItIs {
			return nil, nil, s.missing(c)
		}
		b.byteID[c] = id
	}
	if !s.byteLevel() {
		b.chars = newCharacters(b.vocab)
		if !m.IgnoreMerges { // with ignore_merges a whole piece may be a token, so it must not be cut
			b.seams = &seams{rare: map[[2]rune]bool{}}
		}
	}
	return b, tokens, m.readMerges(b, s)
}

func (m *model) readVocab(b *bpe, s *spelling) ([]string, error) {
	var tokens []string
	var buf []byte
	for _, e := range m.Vocab {
		if e.id < 0 || e.id >= maxIDs {
			return nil, fmt.Errorf("model.vocab: %q: found id %d, expected 0 to %d", e.text, e.id, maxIDs-1)
		}
		if e.text == "" {
			return nil, fmt.Errorf("model.vocab: an empty token has id %d", e.id)
		}
		text, inPiece := s.token(buf, e.text)
		if inPiece != "" {
			if _, twice := b.vocab[inPiece]; twice {
				return nil, fmt.Errorf("model.vocab: %q is there twice", e.text)
			}
			b.vocab[inPiece] = int32(e.id)
		}
		for len(tokens) <= e.id {
			tokens = append(tokens, "")
		}
		if tokens[e.id] != "" {
			return nil, fmt.Errorf("model.vocab: %q and another token both have id %d", e.text, e.id)
		}
		tokens[e.id] = text
	}
	return tokens, nil
}

func (m *model) readMerges(b *bpe, s *spelling) error {
	b.pairs = newPairTable(len(m.Merges))
	b.made = make([]int32, len(m.Merges))
	var buf, both []byte
	var ok bool
	find := func(text string) (int32, bool) {
		if buf, ok = s.pieceForm(buf, text); !ok {
			return 0, false
		}
		id, ok := b.vocab[string(buf)]
		return id, ok
	}
	for rank, pair := range m.Merges {
		left, leftOK := find(pair[0])
		both = append(both[:0], buf...)
		right, rightOK := find(pair[1])
		both = append(both, buf...)
		made, madeOK := b.vocab[string(both)]
		switch {
		case !leftOK:
			return fmt.Errorf("model.merges[%d]: %q is not in model.vocab", rank, pair[0])
		case !rightOK:
			return fmt.Errorf("model.merges[%d]: %q is not in model.vocab", rank, pair[1])
		case !madeOK:
			return fmt.Errorf("model.merges[%d]: %q is not in model.vocab", rank, pair[0]+pair[1])
		case !b.pairs.add(left, right, int32(rank)):
			return fmt.Errorf("model.merges[%d]: %q and %q are merged twice", rank, pair[0], pair[1])
		}
		b.made[rank] = made
		if b.seams != nil {
			b.seams.addMerge(pair[0], pair[1])
		}
	}
	if b.seams != nil && b.mergesBytes(m.Merges, s) {
		b.seams = nil
	}
	return nil
}

// mergesBytes reports whether a byte fallback token is part of a merge. Such a token is not a character
// of the text, so the merges do not tell between which characters a text can be cut.
func (b *bpe) mergesBytes(all merges, s *spelling) bool {
	for _, pair := range all {
		if _, left := s.bytes[pair[0]]; left {
			return true
		}
		if _, right := s.bytes[pair[1]]; right {
			return true
		}
	}
	return false
}
