package output

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// decimal is a number as Python's decimal.Decimal reads it, in normal form: the digits have no zero
// at either end, and the value is 0.DIGITS × 10^exponent.
type decimal struct {
	kind     decimalKind
	negative bool
	digits   string
	exponent int64
}

type decimalKind uint8

const (
	finite decimalKind = iota
	infinite
	notANumber
)

// equal is equality of numbers: nothing equals a NaN, and the two zeros are one.
func (a decimal) equal(b decimal) bool {
	return a.kind != notANumber && a == b
}

// float is the number that is nearest; an infinity where it is beyond all.
func (a decimal) float() float64 {
	switch {
	case a.kind == notANumber:
		return math.NaN()
	case a.kind == infinite && a.negative:
		return math.Inf(-1)
	case a.kind == infinite:
		return math.Inf(1)
	}
	f, _ := strconv.ParseFloat("0."+a.digits+"e"+strconv.FormatInt(a.exponent, 10), 64) // out of range is infinite
	if a.negative {
		return -f
	}
	return f
}

// The bounds that decimal.Decimal sets on 64-bit machines.
const (
	maxAdjusted = 999_999_999_999_999_999
	minExponent = -1_999_999_999_999_999_997
)

// parseDecimal reads one word. Underscores stand anywhere, digits are of any script, and what
// Python refuses to read is refused.
func parseDecimal(word string) (d decimal, ok bool) {
	s, ok := asciiDigits(word)
	if !ok || s == "" {
		return d, false
	}
	if s[0] == '+' || s[0] == '-' {
		d.negative = s[0] == '-'
		s = s[1:]
	}
	switch lower := strings.ToLower(s); {
	case lower == "inf", lower == "infinity":
		d.kind = infinite
		return d, true
	case strings.HasPrefix(lower, "nan"), strings.HasPrefix(lower, "snan"):
		d.kind = notANumber
		return d, onlyDigits(lower[strings.Index(lower, "nan")+3:])
	}
	mantissa, power := s, int64(0)
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		mantissa = s[:at]
		if power, ok = parsePower(s[at+1:]); !ok {
			return d, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if !onlyDigits(whole) || !onlyDigits(fraction) || whole == "" && fraction == "" {
		return d, false
	}
	return d.normal(whole, fraction, power)
}

// normal puts whole.fraction × 10^power into normal form, where Python would hold it.
func (d decimal) normal(whole, fraction string, power int64) (decimal, bool) {
	digits := whole
	if fraction != "" {
		digits += fraction
	}
	digits = strings.TrimLeft(digits, "0")
	last := power - int64(len(fraction)) // exponent of the last digit
	if last < minExponent || last+int64(max(len(digits), 1))-1 > maxAdjusted {
		return d, false
	}
	d.exponent = last + int64(len(digits))
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

// parsePower reads an exponent. One beyond all bounds stays beyond them.
func parsePower(s string) (int64, bool) {
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if s == "" || !onlyDigits(s) {
		return 0, false
	}
	const beyond = 4_000_000_000_000_000_000
	var n int64
	for i := range len(s) {
		if n > beyond/10 {
			n = beyond
			break
		}
		n = n*10 + int64(s[i]-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

func onlyDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// asciiDigits drops underscores and writes the decimal digits of all scripts as 0 to 9. Another
// character outside ASCII is part of no number.
func asciiDigits(s string) (string, bool) {
	if plain := strings.IndexFunc(s, func(r rune) bool { return r == '_' || r >= utf8.RuneSelf }) < 0; plain {
		return s, true
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case r == '_':
		case r < utf8.RuneSelf:
			out.WriteRune(r)
		case unicode.Is(unicode.Nd, r):
			out.WriteByte('0' + digit(r))
		default:
			return "", false
		}
	}
	return out.String(), true
}

// digit is the value of a decimal digit. Unicode keeps the ten of a script together, from zero on.
func digit(r rune) byte {
	for _, block := range unicode.Nd.R16 {
		if rune(block.Lo) <= r && r <= rune(block.Hi) {
			return byte((r - rune(block.Lo)) % 10)
		}
	}
	for _, block := range unicode.Nd.R32 {
		if rune(block.Lo) <= r && r <= rune(block.Hi) {
			return byte((r - rune(block.Lo)) % 10)
		}
	}
	panic("output: digit of a rune that is none")
}
