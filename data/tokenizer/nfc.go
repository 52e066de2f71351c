package tokenizer

import (
	"slices"

	"golang.org/x/text/unicode/norm"
)

// nfc is Unicode Normalization Form C. golang.org/x/text computes it, but inserts U+034F into runs of more
// than 30 combining marks to bound its memory, so texts with such runs are normalized by plainNFC.
func nfc(s string) string {
	if norm.NFC.QuickSpanString(s) == len(s) {
		return s
	}
	if hasLongMarkRun(s) {
		return plainNFC(s)
	}
	return norm.NFC.String(s)
}

// hasLongMarkRun reports whether s may have more than 30 combining marks in a row. A character decomposes
// into at most as many marks as it has bytes, and the letter before it into three at most, so up to 27 bytes
// of marks are safe.
func hasLongMarkRun(s string) bool {
	bytes := 0
	for i := 0; i < len(s); {
		p := norm.NFD.PropertiesString(s[i:])
		if p.LeadCCC() == 0 {
			bytes = 0
		} else if bytes += p.Size(); bytes > 27 {
			return true
		}
		i += max(p.Size(), 1)
	}
	return false
}

// plainNFC follows the definition step by step: decompose, order the marks, compose.
func plainNFC(s string) string {
	var text []rune
	var class []uint8 // combining class of each rune; 0: a starter, such as a letter, which marks follow
	for _, r := range s {
		for _, d := range norm.NFD.String(string(r)) {
			text = append(text, d)
			class = append(class, norm.NFD.PropertiesString(string(d)).CCC())
		}
	}
	orderMarks(text, class)
	return string(composeMarks(text, class))
}

func orderMarks(text []rune, class []uint8) {
	type mark struct {
		r     rune
		class uint8
	}
	for i := 0; i < len(text); i++ {
		if class[i] == 0 {
			continue
		}
		var run []mark
		for j := i; j < len(text) && class[j] != 0; j++ {
			run = append(run, mark{text[j], class[j]})
		}
		slices.SortStableFunc(run, func(a, b mark) int { return int(a.class) - int(b.class) })
		for k, m := range run {
			text[i+k], class[i+k] = m.r, m.class
		}
		i += len(run) - 1
	}
}

// composeMarks composes each rune with the last starter, if Unicode has a character for both and no rune
// between them has the same or a higher class.
func composeMarks(text []rune, class []uint8) []rune {
	out := make([]rune, 0, len(text))
	starter := -1    // index in out
	last := uint8(0) // class of the last rune of out
	for i, r := range text {
		if starter >= 0 && (starter == len(out)-1 || last < class[i]) {
			if c := []rune(norm.NFC.String(string([]rune{out[starter], r}))); len(c) == 1 {
				out[starter] = c[0]
				continue
			}
		}
		if class[i] == 0 {
			starter = len(out)
		}
		last = class[i]
		out = append(out, r)
	}
	return out
}
