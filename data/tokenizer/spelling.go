package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// spelling is how a vocabulary writes the text of a token. A byte-level one (replace is nil) writes each
// byte as a character of the alphabet. Any other writes each character as itself, except for those that
// replace maps back, and has tokens such as <0x0A> for single bytes.
type spelling struct {
	replace func(string) string
	bytes   map[string]byte
	strip   int    // spaces that decoding strips from the start of a text
	blank   string // which the decoder Metaspace drops from the first token of a text; "": none
}

func (s *spelling) byteLevel() bool { return s.replace == nil }

// spelling reads a decoder.
func (p *part) spelling(field string) (*spelling, error) {
	const expected = "expected ByteLevel, or a Sequence of Replace or Metaspace, ByteFallback, Fuse and Strip"
	if p != nil && p.Type == "ByteLevel" {
		return &spelling{}, nil
	}
	if p == nil || p.Type != "Sequence" {
		return nil, fmt.Errorf("%s.type: found %s, %s", field, p.name(), expected)
	}
	var pairs [][2]string
	var order []string
	s := &spelling{bytes: map[string]byte{}}
	for i := range p.Decoders {
		d, at := &p.Decoders[i], fmt.Sprintf("%s.decoders[%d]", field, i)
		switch d.Type {
		case "Replace":
			old, new, err := d.replacement(at)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, [2]string{old, new})
		case "Metaspace":
			blank, scheme, err := d.metaspaceSettings(at)
			if err != nil {
				return nil, err
			}
			if pairs = append(pairs, [2]string{blank, " "}); scheme != "never" {
				s.blank = blank
			}
		case "ByteFallback", "Fuse":
			order = append(order, d.Type)
			continue
		case "Strip":
			var err error
			if s.strip, err = d.spacesToStrip(at); err != nil {
				return nil, err
			}
			order = append(order, d.Type)
			continue
		default:
			return nil, fmt.Errorf("%s.type: found %q, %s", at, d.Type, expected)
		}
		if len(order) > 0 {
			return nil, fmt.Errorf("%s: found %s after %s; %s, in this order", at, d.Type, order[0], expected)
		}
	}
	if got := strings.Join(order, " "); !slices.Contains([]string{"ByteFallback Fuse", "ByteFallback", "ByteFallback Fuse Strip"}, got) {
		return nil, fmt.Errorf("%s: found %q after the replacements; %s, in this order", field, got, expected)
	}
	for b := range 256 {
		s.bytes[byteName(b)] = byte(b)
	}
	s.replace = func(text string) string {
		for _, p := range pairs {
			text = strings.ReplaceAll(text, p[0], p[1])
		}
		return text
	}
	return s, nil
}

// token returns the text that a token of the vocabulary stands for, and its form in pieces; "" if it cannot
// occur in one. Pieces of a byte-level vocabulary are the text itself, others are as the vocabulary writes.
func (s *spelling) token(buf []byte, written string) (text, inPiece string) {
	if !s.byteLevel() {
		if b, ok := s.bytes[written]; ok {
			return string([]byte{b}), written
		}
		return s.replace(written), written
	}
	// A token with characters outside the alphabet stands for its text as written and is never merged.
	raw, ok := fromAlphabet(buf[:0], written)
	if !ok {
		return written, ""
	}
	text = string(raw)
	return text, text
}

// pieceForm converts a token of the file to its form in pieces.
func (s *spelling) pieceForm(buf []byte, written string) ([]byte, bool) {
	if !s.byteLevel() {
		return append(buf[:0], written...), true
	}
	return fromAlphabet(buf[:0], written)
}

// added is the text that an added token stands for.
func (s *spelling) added(content string) string {
	if s.byteLevel() {
		return content
	}
	return s.replace(content)
}

// byteToken is the token of byte b in its form in pieces.
func (s *spelling) byteToken(b int) string {
	if s.byteLevel() {
		return string([]byte{byte(b)})
	}
	return byteName(b)
}

// missing is the error for a byte without a token.
func (s *spelling) missing(b int) error {
	if s.byteLevel() {
		return fmt.Errorf("model.vocab: no token for byte 0x%02X (%q): not a byte-level vocabulary", b, charOf[byte(b)])
	}
	return fmt.Errorf("model.vocab: no token %q, which byte_fallback needs", byteName(b))
}

func isBlank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && r != blank }) < 0
}

// checkFallback checks that byte_fallback of the model agrees with the decoder.
func (s *spelling) checkFallback(byteFallback bool) error {
	switch {
	case s.byteLevel() && byteFallback:
		return errors.New("model.byte_fallback: found true beside a ByteLevel decoder, expected false")
	case !s.byteLevel() && !byteFallback:
		return errors.New("model.byte_fallback: found false beside a ByteFallback decoder, expected true")
	}
	return nil
}
