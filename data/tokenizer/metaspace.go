package tokenizer

import (
	"fmt"
	"strings"
)

// dummyPrefix is the blank that tokenizers converted from SentencePiece put before a text, which SentencePiece calls the
// dummy prefix: a word includes the blank before it, and with the prefix the first word does, too.
type dummyPrefix struct {
	prepend string // put before every text between added tokens: the normalizer Prepend
	blank   string // replaces each space, and is put before a text as scheme says: the pre-tokenizer Metaspace; "": none
	scheme  string // always, first (only at the start of the whole text) or never; a text that begins with a blank gets no second one
}

// apply applies Metaspace to a normalized text between added tokens; first: nothing precedes the text.
func (o *dummyPrefix) apply(text string, first bool) string {
	if o.blank == "" {
		return text
	}
	text = strings.ReplaceAll(text, " ", o.blank)
	if (o.scheme == "always" || o.scheme == "first" && first) && !strings.HasPrefix(text, o.blank) {
		return o.blank + text
	}
	return text
}

// dummyPrefix reads the prefix from Prepend and Metaspace. It returns the file's normalizer without Prepend, and its
// pre-tokenizer.
func (f *file) dummyPrefix() (o dummyPrefix, normalizer, pre *part, err error) {
	normalizer, pre = f.Normalizer, f.PreTokenizer
	if n := normalizer; n != nil && n.Type == "Sequence" && len(n.Normalizers) > 0 && n.Normalizers[0].Type == "Prepend" {
		rest := *n
		rest.Normalizers = n.Normalizers[1:]
		normalizer, o.prepend = &rest, n.Normalizers[0].Prepend
	} else if n != nil && n.Type == "Prepend" {
		normalizer, o.prepend = nil, n.Prepend
	}
	if pre == nil || pre.Type != "Metaspace" {
		return o, normalizer, pre, nil
	}
	o.blank, o.scheme, err = pre.metaspaceSettings("pre_tokenizer")
	return o, normalizer, pre, err
}

// metaspaceSettings reads a Metaspace: the character for a space, and when to prepend it.
func (p *part) metaspaceSettings(field string) (blank, scheme string, err error) {
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

// leading maps the tokens whose text differs at the start of a text: the decoder Metaspace drops their blanks there.
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

// metaspace splits a text before each blank, unless split is false.
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

// spacesToStrip reads a Strip: the number of spaces that decoding removes from the start of a text, where dummyPrefix has put
// them.
func (p *part) spacesToStrip(field string) (int, error) {
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

// strip removes up to left spaces from the start of a text, and returns how many it may still remove: none once another character came.
func strip(text []byte, left int) ([]byte, int) {
	for left > 0 && len(text) > 0 {
		if text[0] != ' ' {
			return text, 0
		}
		text, left = text[1:], left-1
	}
	return text, left
}
