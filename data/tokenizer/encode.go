package tokenizer

import (
	"slices"
	"strings"
)

// Encode gives the tokens of a text in which every character is meant literally. What is not UTF-8 is
// read as U+FFFD.
func (t *Tokenizer) Encode(text string) []int32 {
	return t.AppendText(make([]int32, 0, len(text)/3+4), text)
}

// AppendText appends the tokens of a text to ids. A text between two special tokens goes in as a
// whole: cut in two, it may have other tokens.
func (t *Tokenizer) AppendText(ids []int32, text string) []int32 {
	e := encoder{t: t, ids: ids, begun: len(ids) > 0, allow: func(a added, _ int) bool { return a.ordinary }}
	return e.whole(text)
}

// EncodeSpecial reads the added tokens that are written in the text as such, control or not. These are
// the ids of Hugging Face's tokenizer with add_special_tokens=False.
func (t *Tokenizer) EncodeSpecial(text string) []int32 {
	e := encoder{t: t, ids: make([]int32, 0, len(text)/3+4), allow: func(added, int) bool { return true }}
	return e.whole(text)
}

// Span is a part of a text, in bytes.
type Span struct{ Start, End int }

// EncodeQuoting is EncodeSpecial of a valid UTF-8 text parts of which are somebody else's words: an added
// token that touches one of these is spelled out. Spans are in order and apart.
func (t *Tokenizer) EncodeQuoting(text string, quoted []Span) []int32 {
	e := encoder{t: t, ids: make([]int32, 0, len(text)/3+4), allow: func(a added, at int) bool {
		// The first span that ends after the token begins.
		i, _ := slices.BinarySearchFunc(quoted, at+1, func(s Span, end int) int { return s.End - end })
		return a.ordinary || i == len(quoted) || quoted[i].Start >= at+len(a.content)
	}}
	before := len(t.opening.always)
	e.cut(t.raw, text, 0, func(text string, at int) {
		e.cut(t.written, t.opening.always+text, at-before, func(text string, at int) {
			if t.normalize != nil {
				text = t.normalize(text)
			}
			if text != "" {
				e.plain(text, at == 0)
			}
		})
	})
	return e.ids
}

// encoder collects the tokens of a text. allow says whether an added token that begins at a byte of the
// text is read as such.
type encoder struct {
	t     *Tokenizer
	ids   []int32
	allow func(a added, at int) bool
	begun bool // there is something before the text
}

func (e *encoder) whole(text string) []int32 {
	e.cut(e.t.raw, ValidText(text), 0, func(text string, at int) {
		e.cut(e.t.normal, e.t.normalized(text), 0, func(text string, within int) { e.plain(text, at+within == 0) })
	})
	return e.ids
}

// normalized is a text between added tokens that are looked for in the text as it comes.
func (t *Tokenizer) normalized(text string) string {
	if text != "" {
		text = t.opening.always + text
	}
	if t.normalize == nil {
		return text
	}
	return t.normalize(text)
}

// plain takes the tokens of a normalized text without added tokens. first tells that it begins the whole.
func (e *encoder) plain(text string, first bool) {
	e.t.split(e.t.opening.write(text, first && !e.begun), func(piece string) { e.ids = e.t.bpe.appendPiece(e.ids, piece) })
}

// cut takes the tokens that m finds in a text, which begins at offset, and hands what is between them
// to rest.
func (e *encoder) cut(m *matcher, text string, offset int, rest func(text string, offset int)) {
	start := 0
	for i := 0; i < len(text) && m.any; {
		a, ok := m.match(text[i:], func(a added) bool { return e.allow(a, offset+i) })
		if !ok {
			i++
			continue
		}
		if start < i {
			rest(text[start:i], offset+start)
		}
		e.ids = append(e.ids, a.id)
		i += len(a.content)
		start = i
	}
	if start < len(text) {
		rest(text[start:], offset+start)
	}
}

// matcher finds added tokens in a text: the leftmost, and of those that start there the longest.
type matcher struct {
	any     bool
	byFirst [256][]added // by first byte, longest first
}

type added struct {
	content string
	id      int32
	// ordinary tells a token that is not special and means no more than its text, such as a run of line
	// feeds: it is read from any text. The others give a conversation its structure, and stand only
	// where they are meant to.
	ordinary bool
}

func (m *matcher) add(a added) {
	m.byFirst[a.content[0]], m.any = append(m.byFirst[a.content[0]], a), true
}

// sort comes after the last add.
func (m *matcher) sort() {
	for _, list := range m.byFirst {
		slices.SortStableFunc(list, func(a, b added) int { return len(b.content) - len(a.content) })
	}
}

func (m *matcher) match(text string, allow func(added) bool) (added, bool) {
	for _, a := range m.byFirst[text[0]] {
		if strings.HasPrefix(text, a.content) && allow(a) {
			return a, true
		}
	}
	return added{}, false
}
