package jsonl

import "bytes"

// EachMember calls fn with the name and the value of every member of an object, in order, and reports whether the object is complete.
// Values are skipped at the speed of memory without being checked. A name is raw, without its quotes.
func EachMember(text []byte, fn func(name, value []byte)) bool {
	s := skimmer{text: text}
	ok := s.object(fn)
	s.space()
	return ok && s.at == len(text)
}

// skimmer is a position in a text.
type skimmer struct {
	text []byte
	at   int
}

func (s *skimmer) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t' || s.text[s.at] == '\r' || s.text[s.at] == '\n') {
		s.at++
	}
}

// take skips a character after white space, if it is that one.
func (s *skimmer) take(c byte) bool {
	s.space()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *skimmer) object(fn func(name, value []byte)) bool {
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	for {
		s.space()
		from := s.at
		if !s.string() {
			return false
		}
		name := s.text[from+1 : s.at-1]
		if !s.take(':') {
			return false
		}
		s.space()
		if from = s.at; !s.value() {
			return false
		}
		fn(name, s.text[from:s.at])
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

// string skips a string.
func (s *skimmer) string() bool {
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		return false
	}
	for s.at++; ; s.at++ {
		i := bytes.IndexByte(s.text[s.at:], '"')
		if i < 0 {
			return false
		}
		s.at += i
		slashes := 0
		for s.text[s.at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			s.at++
			return true
		}
	}
}

// value skips any value.
func (s *skimmer) value() bool {
	if s.at >= len(s.text) {
		return false
	}
	switch s.text[s.at] {
	case '"':
		return s.string()
	case '[':
		if next := s.text[s.at+1:]; len(next) > 0 && (next[0] == '-' || next[0] >= '0' && next[0] <= '9') {
			end := bytes.IndexByte(next, ']')
			s.at += end + 2
			return end >= 0
		}
		return s.nested()
	case '{':
		return s.nested()
	}
	from := s.at
	for s.at < len(s.text) && bytes.IndexByte(literal, s.text[s.at]) >= 0 {
		s.at++
	}
	return s.at > from
}

// literal are the characters of numbers, true, false and null.
var literal = []byte("0123456789+-.eEtrufalsn")

// nested skips a list or an object by counting brackets.
func (s *skimmer) nested() bool {
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			if !s.string() {
				return false
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				s.at++
				return true
			}
		}
		s.at++
	}
	return false
}
