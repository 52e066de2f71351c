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
	text = validText(text)
	if t.normalize != nil {
		text = t.normalize(text)
	}
	return t.appendNormal(ids, text)
}

func (t *Tokenizer) appendNormal(ids []int32, text string) []int32 {
	t.split(text, func(piece string) { ids = t.bpe.appendPiece(ids, piece) })
	return ids
}

// EncodeSpecial reads the added tokens that are written in the text as such, control or not. These are
// the ids of Hugging Face's tokenizer with add_special_tokens=False.
func (t *Tokenizer) EncodeSpecial(text string) []int32 {
	ids := make([]int32, 0, len(text)/3+4)
	plain := func(text string) { ids = t.appendNormal(ids, text) }
	added := func(id int32) { ids = append(ids, id) }
	t.raw.cut(validText(text), func(text string) {
		if t.normalize != nil {
			text = t.normalize(text)
		}
		t.normal.cut(text, plain, added)
	}, added)
	return ids
}

// matcher finds added tokens in a text: the leftmost, and of those that start there the longest.
type matcher struct {
	byFirst [256][]added // by first byte, longest first
}

type added struct {
	content string
	id      int32
}

func (m *matcher) add(content string, id int32) {
	list := append(m.byFirst[content[0]], added{content, id})
	slices.SortStableFunc(list, func(a, b added) int { return len(b.content) - len(a.content) })
	m.byFirst[content[0]] = list
}

// cut hands the text between the matches to plain and the matches to found, in their order.
func (m *matcher) cut(text string, plain func(string), found func(id int32)) {
	start := 0
	for i := 0; i < len(text); {
		a, ok := m.match(text[i:])
		if !ok {
			i++
			continue
		}
		if start < i {
			plain(text[start:i])
		}
		found(a.id)
		i += len(a.content)
		start = i
	}
	if start < len(text) {
		plain(text[start:])
	}
}

func (m *matcher) match(text string) (added, bool) {
	for _, a := range m.byFirst[text[0]] {
		if strings.HasPrefix(text, a.content) {
			return a, true
		}
	}
	return added{}, false
}
