package tokenizer

import (
	"slices"
	"strings"
)

// Encode returns the tokens of a text in which every character is meant literally. Invalid UTF-8 is read
// as U+FFFD.
func (t *Tokenizer) Encode(text string) []int32 {
	return t.AppendText(make([]int32, 0, len(text)/3+4), text)
}

// AppendText appends the tokens of a text to ids. Pass the whole text between two special tokens at
// once: if it is cut in two, the parts may have other tokens than the whole.
func (t *Tokenizer) AppendText(ids []int32, text string) []int32 {
	e := encoder{t: t, ids: ids, begun: len(ids) > 0, allow: func(a added, _ int) bool { return a.ordinary }}
	return e.encode(text)
}

// EncodeSpecial encodes a text in which added tokens, control tokens included, stand for themselves. The
// ids are those of Hugging Face's tokenizer with add_special_tokens=False.
func (t *Tokenizer) EncodeSpecial(text string) []int32 {
	e := encoder{t: t, ids: make([]int32, 0, len(text)/3+4), allow: func(added, int) bool { return true }}
	return e.encode(text)
}

// Span is a range of bytes in a text.
type Span struct{ Start, End int }

// EncodeQuoting is EncodeSpecial for a valid UTF-8 text with untrusted parts: an added token that
// overlaps one of these is encoded as ordinary text. The spans are sorted and disjoint.
func (t *Tokenizer) EncodeQuoting(text string, quoted []Span) []int32 {
	e := encoder{t: t, ids: make([]int32, 0, len(text)/3+4), allow: func(a added, at int) bool {
		// The first span that ends after the token begins.
		i, _ := slices.BinarySearchFunc(quoted, at+1, func(s Span, end int) int { return s.End - end })
		return a.ordinary || i == len(quoted) || quoted[i].Start >= at+len(a.content)
	}}
	before := len(t.prefix.prepend)
	e.cut(t.raw, text, 0, func(text string, at int) {
		e.cut(t.written, t.prefix.prepend+text, at-before, func(text string, at int) {
			if t.normalize != nil {
				text = t.normalize(text)
			}
			if text != "" {
				e.encodePlain(text, at == 0)
			}
		})
	})
	return e.ids
}

// encoder collects the tokens of a text. allow reports whether the added token a is recognised at byte at
// of the text.
type encoder struct {
	t     *Tokenizer
	ids   []int32
	allow func(a added, at int) bool
	begun bool // ids had tokens before the text
}

func (e *encoder) encode(text string) []int32 {
	e.cut(e.t.raw, ValidText(text), 0, func(text string, at int) {
		e.cut(e.t.normal, e.t.normalized(text), 0, func(text string, within int) { e.encodePlain(text, at+within == 0) })
	})
	return e.ids
}

// normalized normalizes a text between the added tokens that are matched before normalization.
func (t *Tokenizer) normalized(text string) string {
	if text != "" {
		text = t.prefix.prepend + text
	}
	if t.normalize == nil {
		return text
	}
	return t.normalize(text)
}

// encodePlain encodes a normalized text without added tokens; first: the whole text begins with it.
func (e *encoder) encodePlain(text string, first bool) {
	e.t.split(e.t.prefix.apply(text, first && !e.begun), func(piece string) { e.ids = e.t.bpe.appendPiece(e.ids, piece) })
}

// cut appends the added tokens that m finds in a text and passes the text between them to rest. The text
// begins at offset, from which allow and rest count positions.
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

// matcher finds added tokens in a text: the leftmost, and the longest of those that start there.
type matcher struct {
	any     bool
	byFirst [256][]added // by first byte, longest first
}

type added struct {
	content string
	id      int32
	// ordinary tokens mean no more than their text, such as a run of line feeds, and are recognised in any
	// text. The others structure a conversation and are recognised only in trusted text.
	ordinary bool
}

func (m *matcher) add(a added) {
	m.byFirst[a.content[0]], m.any = append(m.byFirst[a.content[0]], a), true
}

// sort must be called after the last add.
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
