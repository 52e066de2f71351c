package tokenizer

import (
	"errors"
	"fmt"
	"hash/maphash"
)

// supported refuses the settings of other families.
func (m *model) supported() error {
	switch {
	case m.Type != "BPE" && m.Type != "": // files of GPT-2's days have no type
		return fmt.Errorf("model.type: found %q, expected BPE", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model.dropout: found %g, expected null", *m.Dropout)
	case m.ContinuingSubwordPrefix != nil && *m.ContinuingSubwordPrefix != "":
		return fmt.Errorf("model.continuing_subword_prefix: found %q, expected none", *m.ContinuingSubwordPrefix)
	case m.EndOfWordSuffix != nil && *m.EndOfWordSuffix != "":
		return fmt.Errorf("model.end_of_word_suffix: found %q, expected none", *m.EndOfWordSuffix)
	case m.ByteFallback:
		return errors.New("model.byte_fallback: found true, expected false")
	case len(m.Vocab) == 0:
		return errors.New("model.vocab: missing or empty")
	case m.Merges == nil:
		return errors.New("model.merges: missing")
	}
	return nil
}

// build makes the merge tables, and the bytes of each id.
func (m *model) build() (*bpe, []string, error) {
	b := &bpe{
		vocab:        make(map[string]int32, len(m.Vocab)),
		ignoreMerges: m.IgnoreMerges,
	}
	b.cache.seed = maphash.MakeSeed()
	tokens, err := m.readVocab(b)
	if err != nil {
		return nil, nil, err
	}
	for c := range b.byteID {
		id, ok := b.vocab[string([]byte{byte(c)})]
		if !ok && inUTF8(c) {
			return nil, nil, fmt.Errorf("model.vocab: no token for byte 0x%02X (%q): not a byte-level vocabulary", c, charOf[byte(c)])
		}
		b.byteID[c] = id
	}
	return b, tokens, m.readMerges(b)
}

func (m *model) readVocab(b *bpe) ([]string, error) {
	var tokens []string
	var buf []byte
	for _, e := range m.Vocab {
		if e.id < 0 || e.id >= maxIDs {
			return nil, fmt.Errorf("model.vocab: %q: found id %d, expected 0 to %d", e.text, e.id, maxIDs-1)
		}
		if e.text == "" {
			return nil, fmt.Errorf("model.vocab: an empty token has id %d", e.id)
		}
		var ok bool
		// A token with other characters is not made of bytes: it stands for its text and is never merged.
		if buf, ok = fromAlphabet(buf[:0], e.text); !ok {
			buf = append(buf[:0], e.text...)
		}
		text := string(buf)
		if ok {
			if _, twice := b.vocab[text]; twice {
				return nil, fmt.Errorf("model.vocab: %q stands there twice", e.text)
			}
			b.vocab[text] = int32(e.id)
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

func (m *model) readMerges(b *bpe) error {
	b.pairs = newPairTable(len(m.Merges))
	b.made = make([]int32, len(m.Merges))
	var buf []byte
	find := func(text string) (int32, bool) {
		var ok bool
		if buf, ok = fromAlphabet(buf[:0], text); !ok {
			return 0, false
		}
		id, ok := b.vocab[string(buf)]
		return id, ok
	}
	for rank, pair := range m.Merges {
		left, leftOK := find(pair[0])
		right, rightOK := find(pair[1])
		made, madeOK := find(pair[0] + pair[1])
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
	}
	return nil
}
