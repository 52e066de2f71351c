package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"
)

// Text is a string that records which of its bytes are data and not from the template. Operations such as
// slicing, trimming, joining and splitting keep the record.
type Text struct {
	S    string
	Data []Span // sorted, disjoint, none empty
}

// Span is a range of bytes in a text.
type Span struct{ Start, End int }

// Words is a text that is data as a whole.
func Words(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{s, []Span{{0, len(s)}}}
}

func plain(s string) Text { return Text{S: s} }

// like is a text that was computed from all of t: it is data if any part of t is.
func (t Text) like(s string) Text {
	if len(t.Data) > 0 {
		return Words(s)
	}
	return plain(s)
}

func (t Text) slice(start, end int) Text {
	out := Text{S: t.S[start:end]}
	for _, d := range t.Data {
		if a, b := max(d.Start, start), min(d.End, end); a < b {
			out.Data = append(out.Data, Span{a - start, b - start})
		}
	}
	return out
}

// joiner concatenates texts.
type joiner struct {
	s    strings.Builder
	data []Span
}

func (j *joiner) add(t Text) {
	at := j.s.Len()
	j.s.WriteString(t.S)
	for _, d := range t.Data {
		if n := len(j.data); n > 0 && j.data[n-1].End == at+d.Start {
			j.data[n-1].End = at + d.End
			continue
		}
		j.data = append(j.data, Span{at + d.Start, at + d.End})
	}
}

func (j *joiner) text() Text { return Text{j.s.String(), j.data} }

func concat(texts ...Text) Text {
	var j joiner
	for _, t := range texts {
		j.add(t)
	}
	return j.text()
}

// trim removes characters at the ends: those in chars, or white space if chars is nil.
func (t Text) trim(chars *string, left, right bool) Text {
	cut := syntax.IsSpace
	if chars != nil {
		cut = func(r rune) bool { return strings.ContainsRune(*chars, r) }
	}
	start, end := 0, len(t.S)
	if left {
		start = end - len(strings.TrimLeftFunc(t.S, cut))
	}
	if right {
		end = start + len(strings.TrimRightFunc(t.S[start:], cut))
	}
	return t.slice(start, end)
}

// split splits at a separator, at most n times unless n is negative.
func (t Text) split(sep string, n int) (parts []Text) {
	start := 0
	for n != 0 {
		i := strings.Index(t.S[start:], sep)
		if i < 0 {
			break
		}
		parts = append(parts, t.slice(start, start+i))
		start += i + len(sep)
		n--
	}
	return append(parts, t.slice(start, len(t.S)))
}

// rsplit splits from the end.
func (t Text) rsplit(sep string, n int) (parts []Text) {
	end := len(t.S)
	for n != 0 {
		i := strings.LastIndex(t.S[:end], sep)
		if i < 0 {
			break
		}
		parts = append(parts, t.slice(i+len(sep), end))
		end = i
		n--
	}
	parts = append(parts, t.slice(0, end))
	slices.Reverse(parts)
	return parts
}

// fields splits at runs of white space, at most n times unless n is negative.
func (t Text) fields(n int) (parts []Text) {
	for rest := t.trim(nil, true, false); rest.S != ""; n-- {
		i := strings.IndexFunc(rest.S, syntax.IsSpace)
		if i < 0 || n == 0 {
			parts = append(parts, rest)
			break
		}
		parts = append(parts, rest.slice(0, i))
		rest = rest.slice(i, len(rest.S)).trim(nil, true, false)
	}
	return parts
}

// lines splits at line ends, which are kept if keep is set.
func (t Text) lines(keep bool) (parts []Text) {
	start := 0
	for i := 0; i < len(t.S); {
		r, n := utf8.DecodeRuneInString(t.S[i:])
		end := i
		if i += n; !strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r) {
			continue
		}
		if r == '\r' && strings.HasPrefix(t.S[i:], "\n") {
			i++
		}
		if keep {
			end = i
		}
		parts = append(parts, t.slice(start, end))
		start = i
	}
	if start < len(t.S) {
		parts = append(parts, t.slice(start, len(t.S)))
	}
	return parts
}

// replace replaces old by new, at most n times unless n is negative.
func (t Text) replace(old, new Text, n int) Text {
	var j joiner
	if old.S == "" { // insert new before each character and at the end
		for i, r := range t.S {
			if n == 0 {
				j.add(t.slice(i, len(t.S)))
				return j.text()
			}
			j.add(new)
			j.add(t.slice(i, i+utf8.RuneLen(r)))
			n--
		}
		if n != 0 {
			j.add(new)
		}
		return j.text()
	}
	for i, part := range t.split(old.S, n) {
		if i > 0 {
			j.add(new)
		}
		j.add(part)
	}
	return j.text()
}

// runeCount and byteAt count characters, as Python does.
func (t Text) runeCount() int { return utf8.RuneCountInString(t.S) }

func (t Text) byteAt(char int) int {
	if char <= 0 {
		return 0
	}
	for i := range t.S {
		if char == 0 {
			return i
		}
		char--
	}
	return len(t.S)
}
