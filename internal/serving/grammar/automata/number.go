package automata

import (
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Limits on the digits of a number before the point, behind it, and in the exponent. So every number ends, and fits in
// 64-bit floating point.
const (
	wholeDigits    = 21
	FractionDigits = 24
	exponentDigits = 2
)

// Decimal is a limit: its digits before and behind the point, without leading or trailing zeros.
type Decimal struct {
	Negative        bool
	Whole, Fraction string
}

// NewDecimal parses a JSON number.
func NewDecimal(text string) (Decimal, error) {
	var d Decimal
	digits, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil || n < -60 || n > 60 {
			return d, badinput.Errorf("%s is out of reach; the exponent of a Limit is from -60 to 60", Truncate(text))
		}
		digits, exponent = text[:i], n
	}
	digits, d.Negative = strings.CutPrefix(digits, "-")
	if len(digits) > 60 {
		return d, badinput.Errorf("%s has more than 60 digits", Truncate(text))
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	point := len(whole) + exponent
	all := whole + fraction
	if point < 0 {
		all = strings.Repeat("0", -point) + all
		point = 0
	}
	if point > len(all) {
		all += strings.Repeat("0", point-len(all))
	}
	d.Whole, d.Fraction = strings.TrimLeft(all[:point], "0"), strings.TrimRight(all[point:], "0")
	if d.Whole == "" {
		d.Whole = "0"
	}
	if d.Zero() {
		d.Negative = false
	}
	return d, nil
}

func (d Decimal) Zero() bool { return d.Whole == "0" && d.Fraction == "" }

// Limit is one end of a range.
type Limit struct {
	Decimal
	Strict bool // the limit itself is excluded
}

// Numbers describes the numbers that a schema allows.
type Numbers struct {
	Integers bool
	Lo, Hi   []Limit
	Fraction int // most digits behind the point
	Multiple int // for integers; 0 and 1 are no restriction
}

var int64Limits = [2]Limit{
	{Decimal: Decimal{Negative: true, Whole: "9223372036854775808"}}, {Decimal: Decimal{Whole: "9223372036854775807"}},
}

// Automaton accepts these numbers in JSON; nil if there are none. With limits there are no exponents.
func (n Numbers) Automaton(b *Budget) (*Automaton, error) {
	exponent := !n.Integers && len(n.Lo) == 0 && len(n.Hi) == 0 && n.Fraction == FractionDigits
	if n.Integers {
		n.Lo, n.Hi, n.Fraction = append(n.Lo, int64Limits[0]), append(n.Hi, int64Limits[1]), 0
	}
	up, err := n.magnitudes(b, n.Lo, n.Hi, exponent)
	if err != nil {
		return nil, err
	}
	if len(n.Lo) > 0 || len(n.Hi) > 0 { // no negative zero then
		n.Hi = append(n.Hi, Limit{Decimal{Whole: "0"}, true})
	}
	down, err := n.magnitudes(b, negated(n.Hi), negated(n.Lo), exponent)
	if err != nil {
		return nil, err
	}
	type at struct {
		side int
		q    int32
	}
	sides := [3]*Automaton{1: up, 2: down}
	return explore(b, at{}, func(s at, emit func(lo, hi rune, to at)) bool {
		follow := func(side int, q int32) bool {
			if sides[side] == nil {
				return false
			}
			for _, m := range sides[side].moves[q] {
				emit(m.lo, m.hi, at{side, m.to})
			}
			return sides[side].accepts[q]
		}
		if s.side > 0 {
			return follow(s.side, s.q)
		}
		if down != nil {
			emit('-', '-', at{2, 0})
		}
		return follow(1, 0)
	})
}

func negated(limits []Limit) (out []Limit) {
	for _, l := range limits {
		l.Negative = !l.Negative && !l.Zero()
		out = append(out, l)
	}
	return out
}

// magnitudes accepts unsigned numbers within limits.
func (n Numbers) magnitudes(b *Budget, lo, hi []Limit, exponent bool) (*Automaton, error) {
	a, err := digits(b, n.Fraction, exponent)
	if err == nil && n.Multiple > 1 {
		a, err = meet(b, a, multiplesOf(n.Multiple))
	}
	for _, l := range lo {
		if err == nil && !l.Negative {
			a, err = meet(b, a, compared(l, 1))
		}
	}
	for _, l := range hi {
		if l.Negative {
			return nil, err
		}
		if err == nil {
			a, err = meet(b, a, compared(l, -1))
		}
	}
	return a, err
}

func meet(left *Budget, a *Automaton, make func(*Budget) (*Automaton, error)) (*Automaton, error) {
	b, err := make(left)
	if err != nil {
		return nil, err
	}
	return Intersect(left, a, b)
}

// digits accepts unsigned numbers: 0, 12, 0.5, 1e-7 and so on.
func digits(b *Budget, fraction int, exponent bool) (*Automaton, error) {
	type at struct {
		part byte // 0 start, i integer digits, z a leading zero, . fraction, e exponent, s its sign, x its digits
		n    int
	}
	return explore(b, at{}, func(s at, emit func(lo, hi rune, to at)) bool {
		ends := true
		switch s.part {
		case 0:
			emit('0', '0', at{'z', 0})
			emit('1', '9', at{'i', 1})
			return false
		case 'i', 'z':
			if fraction > 0 {
				emit('.', '.', at{'.', 0})
			}
			if s.part == 'i' && s.n < wholeDigits {
				emit('0', '9', at{'i', s.n + 1})
			}
		case '.':
			if s.n < fraction {
				emit('0', '9', at{'.', s.n + 1})
			}
			ends = s.n > 0
		case 'e':
			emit('+', '+', at{'s', 0})
			emit('-', '-', at{'s', 0})
			fallthrough
		case 's':
			emit('0', '9', at{'x', 1})
			return false
		case 'x':
			if s.n < exponentDigits {
				emit('0', '9', at{'x', s.n + 1})
			}
			return true
		}
		if ends && exponent {
			emit('E', 'E', at{'e', 0})
			emit('e', 'e', at{'e', 0})
		}
		return ends
	})
}

// multiplesOf accepts the digits of integers that are multiples of m.
func multiplesOf(m int) func(*Budget) (*Automaton, error) {
	return func(b *Budget) (*Automaton, error) {
		return explore(b, 0, func(rest int, emit func(lo, hi rune, to int)) bool {
			for d := range 10 {
				emit(rune('0'+d), rune('0'+d), (10*rest+d)%m)
			}
			return rest == 0
		})
	}
}

// compared accepts unsigned numbers on one side of a limit: 1 above, -1 below.
func compared(l Limit, side int) func(*Budget) (*Automaton, error) {
	type at struct {
		fraction bool
		n        int // digits read of this part, at most one more than the limit has
		order    int // comparison of those with as many digits of the limit
	}
	whole := func(s at) int { // the comparison once the point is reached
		switch {
		case s.n < len(l.Whole):
			return -1
		case s.n > len(l.Whole):
			return 1
		}
		return s.order
	}
	return func(b *Budget) (*Automaton, error) {
		return explore(b, at{}, func(s at, emit func(lo, hi rune, to at)) bool {
			of, order := l.Whole, s.order
			if s.fraction {
				of = l.Fraction
			} else {
				order = whole(s)
				emit('.', '.', at{true, 0, order})
			}
			for d := range 10 {
				to := at{s.fraction, min(s.n+1, len(of)+1), s.order}
				if to.order == 0 {
					to.order = compareDigit(byte('0'+d), of, s.n)
				}
				emit(rune('0'+d), rune('0'+d), to)
			}
			if order == 0 && (!s.fraction && l.Fraction != "" || s.fraction && s.n < len(l.Fraction)) {
				order = -1
			}
			return order == side || order == 0 && !l.Strict
		})
	}
}

// compareDigit compares a digit with digit n of a limit, which continues with zeros.
func compareDigit(d byte, of string, n int) int {
	other := byte('0')
	if n < len(of) {
		other = of[n]
	}
	switch {
	case d < other:
		return -1
	case d > other:
		return 1
	}
	return 0
}

// String writes a decimal as a JSON number without an exponent.
func (d Decimal) String() string {
	text := d.Whole
	if d.Fraction != "" {
		text += "." + d.Fraction
	}
	if d.Negative {
		text = "-" + text
	}
	return text
}
