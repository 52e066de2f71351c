package tokenizer

// Decode gives the text of ids. With skipSpecial it leaves out control tokens such as <|im_end|>. Bytes
// that are no characters become U+FFFD; an id that has no token (a model's embedding may have more rows
// than there are tokens) stands for nothing.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	raw := make([]byte, 0, 4*len(ids))
	begun := false
	for _, id := range ids {
		raw, begun = t.appendToken(raw, id, skipSpecial, begun)
	}
	raw, _ = strip(raw, t.spelling.strip)
	return ValidText(string(raw))
}

// Text is what a model says with ids, without control tokens.
func (t *Tokenizer) Text(ids []int32) string { return t.Decode(ids, true) }

// appendToken adds what a token stands for in a text that has begun or not, and tells whether it has now.
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

// Stream decodes tokens as they come and never gives out half a character. What Push and Flush return,
// joined, is what Decode gives for all the tokens.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	rest        []byte // the start of a character
	strip       int    // spaces that are left to take off the start of the text
	begun       bool   // a token was pushed
}

// NewStream starts a text.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial, strip: t.spelling.strip}
}

// Push adds a token and returns the text that is complete with it.
func (s *Stream) Push(id int32) string {
	s.rest, s.begun = s.t.appendToken(s.rest, id, s.skipSpecial, s.begun)
	s.rest, s.strip = strip(s.rest, s.strip)
	text, rest := appendText(nil, s.rest, false)
	s.rest = append(s.rest[:0], rest...)
	return string(text)
}

// Pending is what Flush would return, and ends nothing.
func (s *Stream) Pending() string {
	text, _ := appendText(nil, s.rest, true)
	return string(text)
}

// Flush ends the text: an unfinished character becomes U+FFFD. The stream can be used anew.
func (s *Stream) Flush() string {
	text := s.Pending()
	s.rest, s.strip, s.begun = s.rest[:0], s.t.spelling.strip, false
	return text
}
