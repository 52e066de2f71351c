package tokenizer

import (
	"errors"
	"fmt"
)

// maxIDs bounds ids, so that a damaged file cannot make us allocate a huge table. The largest
// vocabularies have some 260,000 tokens.
const maxIDs = 1 << 21

// build checks every field that affects the ids and refuses what it does not support: ignoring a part
// would silently give wrong tokens.
func (f *file) build() (*Tokenizer, error) {
	if f.Model == nil {
		return nil, errors.New("model: missing; expected a BPE model")
	}
	s, err := f.Decoder.spelling("decoder")
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{spelling: s}
	var normalizer, pre *part
	if t.prefix, normalizer, pre, err = f.dummyPrefix(); err != nil {
		return nil, err
	}
	if t.normalize, err = normalizer.normalizer("normalizer"); err != nil {
		return nil, err
	}
	if t.split, err = f.splitter(pre, s); err != nil {
		return nil, err
	}
	if err := f.Model.supported(s); err != nil {
		return nil, err
	}
	if t.bpe, t.tokens, err = f.Model.build(s); err != nil {
		return nil, err
	}
	t.leading = f.leading(s)
	if t.bpe.seams != nil {
		t.split = chain(t.split, t.bpe.seams.split)
	}
	if err := t.addTokens(f); err != nil {
		return nil, err
	}
	return t, nil
}

func (f *file) splitter(p *part, s *spelling) (splitter, error) {
	if !s.byteLevel() && p == nil {
		return func(text string, emit func(string)) { emit(text) }, nil
	}
	if p == nil {
		return nil, errors.New("pre_tokenizer: missing; expected ByteLevel, or a Sequence of Split and ByteLevel")
	}
	if p.Type == "Metaspace" && !s.byteLevel() {
		return p.metaspace(), nil
	}
	split, err := p.splitter("pre_tokenizer")
	if err == nil && p.spellsBytes() != s.byteLevel() {
		return nil, fmt.Errorf("pre_tokenizer.type: found %q beside a decoder of type %s: a ByteLevel pre_tokenizer and "+
			"a ByteLevel decoder go together", p.Type, f.Decoder.name())
	}
	return split, err
}

func (p *part) name() string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("%q", p.Type)
}

// addTokens reads added_tokens, checks them, and sorts them into the matchers.
func (t *Tokenizer) addTokens(f *file) error {
	t.added, t.control = map[string]int32{}, map[int32]bool{}
	t.raw, t.normal, t.written = &matcher{}, &matcher{}, &matcher{}
	for i, a := range f.AddedTokens {
		at := fmt.Sprintf("added_tokens[%d]", i)
		id, ok := t.TokenID(a.Content)
		switch {
		case a.Content == "":
			return fmt.Errorf("%s.content: missing or empty", at)
		case a.Id < 0 || a.Id >= maxIDs:
			return fmt.Errorf("%s.id: found %d, expected 0 to %d", at, a.Id, maxIDs-1)
		case ok && int64(id) != a.Id:
			return fmt.Errorf("%s: %q has id %d here and %d elsewhere", at, a.Content, a.Id, id)
		case a.Lstrip || a.Rstrip || a.SingleWord:
			return fmt.Errorf("%s: %q: expected lstrip, rstrip and single_word to be false", at, a.Content)
		}
		id = int32(a.Id)
		for len(t.tokens) <= int(id) {
			t.tokens = append(t.tokens, "")
		}
		if have := t.tokens[id]; have != "" && have != a.Content && !ok {
			return fmt.Errorf("%s: %q and %q both have id %d", at, a.Content, have, id)
		}
		t.tokens[id] = t.spelling.added(a.Content)
		t.added[a.Content] = id
		t.control[id] = a.Special
		match := added{a.Content, id, !a.Special && (ok || isBlank(a.Content))}
		if a.Normalized && (t.normalize != nil || t.prefix.prepend != "") {
			if match.content = t.normalized(a.Content); match.content == "" {
				return fmt.Errorf("%s: the normalizer makes %q empty", at, a.Content)
			}
			t.normal.add(match)
			t.written.add(match)
			if before := t.spelling.added(match.content); before != match.content && t.normalize != nil && t.normalize(before) == match.content {
				t.written.add(added{before, id, match.ordinary})
			}
		} else {
			t.raw.add(match)
		}
	}
	t.raw.sort()
	t.normal.sort()
	t.written.sort()
	return t.checkMerges()
}

// checkMerges refuses a file whose merges make a control token: ordinary text could then produce it.
func (t *Tokenizer) checkMerges() error {
	for rank, id := range t.bpe.made {
		if t.control[id] {
			return fmt.Errorf("model.merges[%d]: makes the special token %q", rank, t.tokens[id])
		}
	}
	return nil
}
