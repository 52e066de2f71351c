package tokenizer

import (
	"fmt"
	"strings"
)

// opening is what a vocabulary that was made by SentencePiece has a text begin with: its words are written with the blank
// before them, and so is the first.
type opening struct {
	always string // put before every text between added tokens: the normalizer Prepend
	blank  string // put in place of each space, and by scheme before a text: the pre-tokenizer Metaspace; "": there is none
	scheme string // always, first (of a whole text alone) or never; a text that begins with a blank gets no other
}

// write is a text between added tokens as the pieces of the vocabulary write it, after normalization. first tells that nothing is
// before it.
func (o *opening) write(text string, first bool) string {
	if o.blank == "" {
		return text
	}
	text = strings.ReplaceAll(text, " ", o.blank)
	if (o.scheme == "always" || o.scheme == "first" && first) && !strings.HasPrefix(text, o.blank) {
		return o.blank + text
	}
	return text
}

// opening takes what a text begins with out of the parts, and gives the normalizer and the pre-tokenizer that are left.
func (f *file) opening() (o opening, normalizer, pre *part, err error) {
	normalizer, pre = f.Normalizer, f.PreTokenizer
	if n := normalizer; n != nil && n.Type == "Sequence" && len(n.Normalizers) > 0 && n.Normalizers[0].Type == "Prepend" {
		rest := *n
		rest.Normalizers = n.Normalizers[1:]
		normalizer, o.always = &rest, n.Normalizers[0].Prepend
	} else if n != nil && n.Type == "Prepend" {
		normalizer, o.always = nil, n.Prepend
	}
	if pre == nil || pre.Type != "Metaspace" {
		return o, normalizer, pre, nil
	}
	o.blank, o.scheme, err = pre.marks("pre_tokenizer")
	return o, normalizer, pre, err
}

// marks are what a Metaspace has in place of a space, and where it puts one before a text.
func (p *part) marks(field string) (blank, scheme string, err error) {
	blank, scheme = p.Replacement, p.PrependScheme
	never := p.AddPrefixSpace != nil && !*p.AddPrefixSpace
	switch {
	case blank == "" || len([]rune(blank)) > 1:
		return "", "", fmt.Errorf("%s.replacement: found %q, expected the character that stands for a space", field, blank)
	case scheme == "" && never:
		scheme = "never"
	case scheme == "":
		scheme = "always"
	case scheme != "always" && scheme != "first" && scheme != "never":
		return "", "", fmt.Errorf("%s.prepend_scheme: found %q, expected always, first or never", field, scheme)
	case never && scheme != "never":
		return "", "", fmt.Errorf("%s: found add_prefix_space false beside prepend_scheme %q, expected never", field, scheme)
	}
	return blank, scheme, nil
}

// leading are the tokens that stand for another text where they come first: without the blanks of the decoder Metaspace.
func (f *file) leading(s *spelling) map[int32]string {
	if s.blank == "" {
		return nil
	}
	texts := map[int32]string{}
	add := func(id int64, written string) {
		if without := strings.ReplaceAll(written, s.blank, ""); without != written {
			texts[int32(id)] = s.replace(without)
		}
	}
	for _, e := range f.Model.Vocab {
		add(int64(e.id), e.text)
	}
	for _, a := range f.AddedTokens {
		add(a.Id, a.Content)
	}
	return texts
}

// metaspace cuts a text before each blank, unless it is told not to.
func (p *part) metaspace() splitter {
	if p.Split != nil && !*p.Split {
		return func(text string, emit func(string)) { emit(text) }
	}
	blank := p.Replacement
	return func(text string, emit func(string)) {
		for text != "" {
			end := len(text)
			if i := strings.Index(text[1:], blank); i >= 0 {
				end = 1 + i
			}
			emit(text[:end])
			text = text[end:]
		}
	}
}

// stripped is how many spaces decoding takes off the start of a text: those that the opening has put there.
func (p *part) stripped(field string) (int, error) {
	if p.Content == nil || *p.Content != " " || p.Stop != 0 || p.Start < 0 {
		return 0, fmt.Errorf("%s: found a Strip of start %d, stop %d and content %s; expected spaces at the start: content \" \", stop 0",
			field, p.Start, p.Stop, quoted(p.Content))
	}
	return p.Start, nil
}

func quoted(s *string) string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("%q", *s)
}

// strip takes as many spaces as are left to take off the start of a text; left is 0 once the text has begun.
func strip(text []byte, left int) ([]byte, int) {
	for left > 0 && len(text) > 0 {
		if text[0] != ' ' {
			return text, 0
		}
		text, left = text[1:], left-1
	}
	return text, left
}
