package grammar

import (
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/serving/grammar/automata"
)

// leaf is a piece of text that an automaton over characters describes: a number, or the inside of a JSON string, in which
// characters may also be escaped.
type leaf struct {
	auto   *automata.Automaton
	quoted bool // the inside of a string, and its closing quote
	// least and most limit the length if the automaton accepts everything; -1 is no limit. Otherwise the automaton itself
	// limits it.
	least, most int32
}

// state is a node of the network, and within a leaf the position in it; the other fields are zero elsewhere.
type state struct {
	node  int32
	q     int32  // state of the automaton
	count int32  // characters so far, if they are counted
	part  uint32 // a partly read character, encoded as below; 0 between characters
}

// The kinds of partly read characters, in bits 28 and up. The lower bits hold counters and the bits of the character so far.
const (
	partUTF8   = 1 + iota // UTF-8: number of bytes after the first in bits 26 and up, how many are missing in bits 24 and up
	partEscape            // after a backslash
	partHex               // after \u: number of digits read in bits 24 and up
	partHigh              // after a high surrogate, whose 10 bits are stored. A backslash must come,
	partPaired            // then a u,
	partLow               // then digits: number read in bits 26 and up, the high surrogate's 10 bits in bits 16 and up
)

func part(kind, n int, bits uint32) uint32 { return uint32(kind)<<28 | uint32(n)<<24 | bits }

// step reads a byte. The quote that ends a string is handled by closes instead.
func (l *leaf) step(s state, b byte) (state, bool) {
	kind, bits := s.part>>28, s.part&0xFFFFFF
	n := int(s.part >> 24 & 15)
	switch kind {
	case 0:
		return l.begin(s, b)
	case partUTF8:
		if b&0xC0 != 0x80 {
			return s, false
		}
		bits = bits<<6 | uint32(b&0x3F)
		if n&3 == 1 {
			return l.character(s, rune(bits))
		}
		return l.prefix(s, n>>2, n&3-1, bits)
	case partEscape:
		return l.escape(s, b)
	case partHex:
		return l.hex(s, b, n, bits)
	case partHigh:
		s.part = part(partPaired, 0, bits)
		return s, b == '\\'
	case partPaired:
		s.part = partLow<<28 | bits<<16
		return s, b == 'u'
	}
	return l.low(s, b)
}

// begin reads the first byte of a character.
func (l *leaf) begin(s state, b byte) (state, bool) {
	switch {
	case l.most >= 0 && s.count >= l.most:
		return s, false
	case l.quoted && b == '\\':
		s.part = part(partEscape, 0, 0)
		return s, !l.auto.MustEnd(s.q)
	case l.quoted && (b < 0x20 || b == '"'):
		return s, false
	case b < 0x80:
		return l.character(s, rune(b))
	case b >= 0xC2 && b < 0xE0:
		return l.prefix(s, 1, 1, uint32(b&0x1F))
	case b >= 0xE0 && b < 0xF0:
		return l.prefix(s, 2, 2, uint32(b&0x0F))
	case b >= 0xF0 && b < 0xF5:
		return l.prefix(s, 3, 3, uint32(b&0x07))
	}
	return s, false
}

// prefix accepts the bits of a partly read UTF-8 character if an allowed character begins so. It has that many bytes after
// the first, of which left are still to come.
func (l *leaf) prefix(s state, bytes, left int, bits uint32) (state, bool) {
	s.part = part(partUTF8, bytes<<2|left, bits)
	lo := rune(bits) << (6 * left)
	hi := lo + 1<<(6*left) - 1
	shortest := [4]rune{0, 0x80, 0x800, 0x10000} // no overlong encodings
	return s, l.auto.AnyNext(s.q, max(lo, shortest[bytes]), hi)
}

// escape reads the character after a backslash.
func (l *leaf) escape(s state, b byte) (state, bool) {
	if b == 'u' {
		s.part = part(partHex, 0, 0)
		return s, true
	}
	for i, short := range []byte(`"\/bfnrt`) {
		if b == short {
			return l.character(s, rune("\"\\/\b\f\n\r\t"[i]))
		}
	}
	return s, false
}

// hex reads a digit of \uXXXX.
func (l *leaf) hex(s state, b byte, n int, bits uint32) (state, bool) {
	d, ok := digit(b)
	if !ok {
		return s, false
	}
	bits = bits<<4 | d
	if n == 3 && !isHigh(bits) {
		return l.character(s, rune(bits))
	}
	if n == 3 {
		s.part = part(partHigh, 0, bits-0xD800)
	} else {
		s.part = part(partHex, n+1, bits)
	}
	lo := rune(bits) << (4 * (3 - n))
	hi := lo + 1<<(4*(3-n)) - 1
	if n < 3 && l.auto.AnyNext(s.q, lo, hi) {
		return s, true
	}
	lo, hi = max(lo, 0xD800), min(hi, 0xDBFF)
	return s, lo <= hi && l.auto.AnyNext(s.q, 0x10000+(lo-0xD800)<<10, 0x10000+(hi-0xD800)<<10|0x3FF)
}

// low reads a digit of the second surrogate of a pair.
func (l *leaf) low(s state, b byte) (state, bool) {
	d, ok := digit(b)
	n, high, bits := int(s.part>>26&3), s.part>>16&0x3FF, s.part&0xFFFF
	if !ok {
		return s, false
	}
	bits = bits<<4 | d
	lo := rune(bits) << (4 * (3 - n))
	hi := lo + 1<<(4*(3-n)) - 1
	lo, hi = max(lo, 0xDC00), min(hi, 0xDFFF)
	if lo > hi {
		return s, false
	}
	base := 0x10000 + rune(high)<<10
	if n == 3 {
		return l.character(s, base+lo-0xDC00)
	}
	s.part = partLow<<28 | uint32(n+1)<<26 | high<<16 | bits
	return s, l.auto.AnyNext(s.q, base+lo-0xDC00, base+hi-0xDC00)
}

func isHigh(unit uint32) bool { return unit >= 0xD800 && unit < 0xDC00 }

func digit(b byte) (uint32, bool) {
	switch {
	case b >= '0' && b <= '9':
		return uint32(b - '0'), true
	case b >= 'a' && b <= 'f':
		return uint32(b-'a') + 10, true
	case b >= 'A' && b <= 'F':
		return uint32(b-'A') + 10, true
	}
	return 0, false
}

// character reads a complete character.
func (l *leaf) character(s state, r rune) (state, bool) {
	if r > utf8.MaxRune {
		return s, false
	}
	q := l.auto.Next(s.q, r)
	if q < 0 {
		return s, false
	}
	s.q, s.part = q, 0
	if l.most >= 0 || s.count < l.least {
		s.count++
	}
	return s, true
}

// closes reports whether the leaf may end here.
func (l *leaf) closes(s state) bool { return s.part == 0 && l.auto.Accepts(s.q) && s.count >= l.least }

// plain reports whether the leaf is a string of any characters, up to its length limits.
func (l *leaf) plain() bool { return l.quoted && l.auto == automata.AnyText }

// alike maps all states that no token of at most longest bytes can tell apart to the same state, for the cache.
func (l *leaf) alike(s state, longest int32) state {
	open := l.most < 0 || l.most-s.count >= longest
	switch {
	case open && s.count >= l.least:
		s.count = -1
	case open && l.least-s.count > longest:
		s.count = -2
	}
	return s
}
