package tokenizer

// Decode returns the text of ids. With skipSpecial it omits control tokens such as <|im_end|>. Invalid
// UTF-8 becomes U+FFFD; an id without a token (the embedding of a model may have more rows than the
// vocabulary has tokens) is ignored.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	raw := make([]byte, 0, 4*len(ids))
	begun := false
	for _, id := range ids {
		raw, begun = t.appendToken(raw, id, skipSpecial, begun)
	}
	raw, _ = strip(raw, t.spelling.strip)
	return ValidText(string(raw))
}

// Text decodes ids without control tokens.
func (t *Tokenizer) Text(ids []int32) string { return t.Decode(ids, true) }

// appendToken appends the text of a token. The first token of a text may have another text than elsewhere, so begun says
// whether a token came before; the result says so for the next token.
func (t *Tokenizer) appendToken(dst []byte, id int32, skipSpecial, begun bool) ([]byte, bool) {
	if id < 0 || int(id) >= len(t.tokens) || t.tokens[id] == "" || skipSpecial && t.control[id] {
		return dst, begun
	}
	text := t.tokens[id]
	if first, differs := t.leading[id]; differs && !begun {
		text = first
	}
	return append(dst, text...), true
}

// Stream decodes tokens one by one and never returns half a character. The results of Push and Flush
// together equal the result of Decode for all tokens.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	rest        []byte // the first bytes of an incomplete character
	strip       int    // spaces still to be stripped from the start of the text
	begun       bool   // a token was pushed
}

// NewStream starts a text.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial, strip: t.spelling.strip}
}

// Push adds a token and returns the text that it completes.
func (s *Stream) Push(id int32) string {
	s.rest, s.begun = s.t.appendToken(s.rest, id, s.skipSpecial, s.begun)
	s.rest, s.strip = strip(s.rest, s.strip)
	text, rest := appendText(nil, s.rest, false)
	s.rest = append(s.rest[:0], rest...)
	return string(text)
}

// Pending returns what Flush would return, without ending the text.
func (s *Stream) Pending() string {
	text, _ := appendText(nil, s.rest, true)
	return string(text)
}

// Flush ends the text: an unfinished character becomes U+FFFD. The stream can then be reused.
func (s *Stream) Flush() string {
	text := s.Pending()
	s.rest, s.strip, s.begun = s.rest[:0], s.t.spelling.strip, false
	return text
}
