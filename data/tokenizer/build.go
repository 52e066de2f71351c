package tokenizer

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
)

// maxIDs bounds an id, so that a damaged file cannot ask for a table of any size. The largest
// vocabularies have some 260,000 tokens.
const maxIDs = 1 << 21

// build checks every field that has a say in the ids, and refuses what it does not support: a part
// that is passed over would give wrong tokens in silence.
func (f *file) build() (*Tokenizer, error) {
	t := &Tokenizer{}
	var err error
	if t.normalize, err = f.Normalizer.normalizer("normalizer"); err != nil {
		return nil, err
	}
	if f.PreTokenizer == nil {
		return nil, errors.New("pre_tokenizer: missing; expected ByteLevel, or a Sequence of Split and ByteLevel")
	}
	if t.split, err = f.PreTokenizer.splitter("pre_tokenizer"); err != nil {
		return nil, err
	}
	if f.Decoder == nil || f.Decoder.Type != "ByteLevel" {
		return nil, fmt.Errorf("decoder.type: expected ByteLevel, found %s", f.Decoder.name())
	}
	if f.Model == nil {
		return nil, errors.New("model: missing; expected a BPE model")
	}
	if err := f.Model.supported(); err != nil {
		return nil, err
	}
	if t.bpe, t.tokens, err = f.Model.build(); err != nil {
		return nil, err
	}
	if err := t.addTokens(f); err != nil {
		return nil, err
	}
	return t, nil
}

func (p *part) name() string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("%q", p.Type)
}

func (p *part) normalizer(field string) (func(string) string, error) {
	if p == nil {
		return nil, nil
	}
	switch p.Type {
	case "NFC":
		return nfc, nil
	case "Sequence":
		var all func(string) string
		for i := range p.Normalizers {
			n, err := p.Normalizers[i].normalizer(fmt.Sprintf("%s.normalizers[%d]", field, i))
			if err != nil {
				return nil, err
			}
			if n != nil {
				all = n // NFC, any number of times
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("%s.type: found %q, expected NFC, a Sequence of it, or null", field, p.Type)
}

func (p *part) splitter(field string) (splitter, error) {
	switch p.Type {
	case "ByteLevel":
		return p.byteLevel(field)
	case "Digits":
		if p.IndividualDigits {
			return newSplitter(`\p{N}`)
		}
		return newSplitter(`\p{N}+`)
	case "Split":
		if p.Pattern == nil || p.Pattern.Regex == "" {
			return nil, fmt.Errorf("%s.pattern.Regex: missing; expected a regular expression", field)
		}
		if p.Behavior != "Isolated" || p.Invert != nil && *p.Invert {
			return nil, fmt.Errorf("%s: found behavior %q, invert %t; expected Isolated, false", field, p.Behavior, p.Invert != nil && *p.Invert)
		}
		s, err := newSplitter(p.Pattern.Regex)
		if err != nil {
			return nil, fmt.Errorf("%s.pattern.Regex: %s", field, strings.ReplaceAll(err.Error(), "\n", " "))
		}
		return s, nil
	case "Sequence":
		return p.sequence(field)
	}
	return nil, fmt.Errorf("%s.type: found %q, expected ByteLevel, Split, Digits or a Sequence of them", field, p.Type)
}

// byteLevel turns bytes into the characters of the alphabet, which needs no work here: pieces stay
// bytes. Unless told otherwise it also splits by GPT-2's pattern.
func (p *part) byteLevel(field string) (splitter, error) {
	if p.AddPrefixSpace == nil || *p.AddPrefixSpace {
		return nil, fmt.Errorf("%s.add_prefix_space: expected false: no space is put before a text", field)
	}
	if p.UseRegex != nil && !*p.UseRegex {
		return func(text string, emit func(string)) { emit(text) }, nil
	}
	return newSplitter(gpt2Pattern)
}

func (p *part) sequence(field string) (splitter, error) {
	var all splitter
	for i := range p.PreTokenizers {
		child := &p.PreTokenizers[i]
		s, err := child.splitter(fmt.Sprintf("%s.pretokenizers[%d]", field, i))
		switch {
		case err != nil:
			return nil, err
		case child.Type == "ByteLevel" && i < len(p.PreTokenizers)-1:
			return nil, fmt.Errorf("%s.pretokenizers[%d]: ByteLevel must be the last of the sequence", field, i)
		case all == nil:
			all = s
		case child.UseRegex == nil || *child.UseRegex:
			all = chain(all, s)
		}
	}
	if all == nil || p.PreTokenizers[len(p.PreTokenizers)-1].Type != "ByteLevel" {
		return nil, fmt.Errorf("%s.pretokenizers: expected ByteLevel as the last of the sequence", field)
	}
	return all, nil
}

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

// addTokens reads added_tokens.
func (t *Tokenizer) addTokens(f *file) error {
	t.added, t.control = map[string]int{}, map[int]bool{}
	t.raw, t.normal = &matcher{}, &matcher{}
	for i, a := range f.AddedTokens {
		at := fmt.Sprintf("added_tokens[%d]", i)
		id, ok := t.TokenID(a.Content)
		switch {
		case a.Content == "":
			return fmt.Errorf("%s.content: missing or empty", at)
		case a.Id < 0 || a.Id >= maxIDs:
			return fmt.Errorf("%s.id: found %d, expected 0 to %d", at, a.Id, maxIDs-1)
		case ok && id != int(a.Id):
			return fmt.Errorf("%s: %q has id %d here and %d elsewhere", at, a.Content, a.Id, id)
		case a.Lstrip || a.Rstrip || a.SingleWord:
			return fmt.Errorf("%s: %q: expected lstrip, rstrip and single_word to be false", at, a.Content)
		}
		id = int(a.Id)
		for len(t.tokens) <= id {
			t.tokens = append(t.tokens, "")
		}
		if have := t.tokens[id]; have != "" && !ok {
			return fmt.Errorf("%s: %q and %q both have id %d", at, a.Content, have, id)
		}
		t.tokens[id] = a.Content
		t.added[a.Content] = id
		t.control[id] = a.Special
		if a.Normalized && t.normalize != nil {
			t.normal.add(t.normalize(a.Content), id)
		} else {
			t.raw.add(a.Content, id)
		}
	}
	return t.checkMerges()
}

// checkMerges refuses a file whose ordinary merges make a control token: a user could then write one.
func (t *Tokenizer) checkMerges() error {
	for rank, id := range t.bpe.made {
		if t.control[int(id)] {
			return fmt.Errorf("model.merges[%d]: makes the special token %q", rank, t.tokens[id])
		}
	}
	return nil
}
