package mathvalue

import (
	"math"
	"math/big"
	"math/cmplx"
	"strconv"
	"strings"
)

// value is a number: exact where it is rational and not too large, and as a complex number of double precision.
type value struct {
	exact *big.Rat // nil: it is not known to be rational
	near  complex128
	terms float64 // how large what was added up to it was: what cancels leaves an error of that
}

// bits bounds the size of exact numbers: answers such as 2023^2024 are told apart. A power of a fraction, whose parts every step has to
// reduce, is bounded by less.
const bits, fractionBits = 1 << 15, 1 << 12

func exactly(r *big.Rat) value {
	f, _ := r.Float64()
	v := value{exact: r, near: complex(f, 0), terms: math.Abs(f)}
	if r.Num().BitLen()+r.Denom().BitLen() > bits {
		v.exact = nil
	}
	return v
}

func nearly(z complex128) value { return value{near: z, terms: max(cmplx.Abs(z), 1)} }

// equal compares exactly where both are exact, else within what double precision leaves of a long calculation.
func (v value) equal(w value) bool {
	if v.exact != nil && w.exact != nil {
		return v.exact.Num().Cmp(w.exact.Num()) == 0 && v.exact.Denom().Cmp(w.exact.Denom()) == 0 // both are in lowest terms
	}
	if cmplx.IsInf(v.near) || cmplx.IsInf(w.near) { // an exact number that is too large for double precision is none
		return v.exact == nil && w.exact == nil && v.near == w.near
	}
	const within = 1e-9
	cancelled := min(max(v.terms, w.terms), 1) * 1e-3
	return cmplx.Abs(v.near-w.near) <= within*max(cmplx.Abs(v.near), cmplx.Abs(w.near), cancelled)
}

// scope is what variables stand for.
type scope struct{ place int }

// evaluate is the value of an expression without collections; not ok: it has none.
func (s scope) evaluate(n *node) (v value, ok bool) {
	var args []value
	for _, a := range n.args {
		x, ok := s.evaluate(a)
		if !ok {
			return v, false
		}
		args = append(args, x)
	}
	switch n.kind {
	case number:
		return decimal(n.text)
	case variable:
		return s.variable(n.text), true
	case infinity:
		return nearly(complex(math.Inf(1), 0)), true
	case sum:
		return add(args[0], args[1]), true
	case negative:
		return negated(args[0]), true
	case product:
		return times(args[0], args[1]), true
	case quotient:
		return over(args[0], args[1])
	case power:
		return raise(args[0], args[1])
	case percentage:
		return over(args[0], exactly(big.NewRat(100, 1)))
	case factorial:
		return factorials(args[0])
	case call:
		return apply(n.text, args)
	}
	return v, false
}

// decimal is a number as it is written. One with a huge exponent is not worth its digits.
func decimal(text string) (value, bool) {
	if _, power, _ := strings.Cut(strings.ToLower(text), "e"); len(power) > 4 {
		return value{}, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > 1e300 {
		return value{}, false
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return value{}, false
	}
	return exactly(r), true
}

// variable is a number that follows from a name and a place, irrational for all that anybody can tell. i and e are what they are. At far
// places k, l, m and n are whole: there are roundings, and ⌈n/2⌉ is ⌊(n+1)/2⌋.
func (s scope) variable(name string) value {
	switch name {
	case "i":
		return nearly(1i)
	case "e":
		return nearly(complex(math.E, 0))
	}
	h := uint64(14695981039346656037) ^ uint64(s.place)*0x9e3779b97f4a7c15
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	part := float64(h>>11) / (1 << 53)
	if s.place < places {
		return nearly(complex(0.4+2*part, 0))
	}
	far := 30 * (2*part - 1)
	if h&3 == 0 {
		far *= 10
	}
	if strings.Contains("klmn", name) {
		return exactly(new(big.Rat).SetInt64(int64(far)))
	}
	return nearly(complex(far, 0))
}

func add(a, b value) value {
	if a.exact != nil && b.exact != nil {
		return exactly(new(big.Rat).Add(a.exact, b.exact))
	}
	return value{near: a.near + b.near, terms: max(a.terms, b.terms)}
}

func negated(a value) value {
	if a.exact != nil {
		return exactly(new(big.Rat).Neg(a.exact))
	}
	return value{near: complex(-real(a.near), 0-imag(a.near)), terms: a.terms}
}

func times(a, b value) value {
	if a.exact != nil && b.exact != nil {
		return exactly(new(big.Rat).Mul(a.exact, b.exact))
	}
	return value{near: a.near * b.near, terms: a.terms * b.terms}
}

func over(a, b value) (value, bool) {
	if b.near == 0 {
		return value{}, false
	}
	if a.exact != nil && b.exact != nil {
		return exactly(new(big.Rat).Quo(a.exact, b.exact)), true
	}
	return value{near: a.near / b.near, terms: a.terms / cmplx.Abs(b.near)}, true
}

// raise is exact for whole exponents that are not large, and for roots that are rational.
func raise(a, b value) (value, bool) {
	if a.near == 0 && real(b.near) <= 0 {
		return value{}, false
	}
	if a.exact != nil && b.exact != nil && b.exact.IsInt() && b.exact.Num().IsInt64() {
		most := int64(bits)
		if !a.exact.IsInt() {
			most = fractionBits
		}
		if n := b.exact.Num().Int64(); n > -most && n < most && int64(a.exact.Num().BitLen()+a.exact.Denom().BitLen())*max(n, -n) < most {
			return wholePower(a.exact, n), true
		}
	}
	if a.exact != nil && a.exact.Sign() > 0 && b.exact != nil && b.exact.Cmp(big.NewRat(1, 2)) == 0 {
		n, d := new(big.Int).Sqrt(a.exact.Num()), new(big.Int).Sqrt(a.exact.Denom())
		if r := new(big.Rat).SetFrac(n, d); new(big.Rat).Mul(r, r).Cmp(a.exact) == 0 {
			return exactly(r), true
		}
	}
	z := cmplx.Pow(a.near, b.near)
	if imag(a.near) == 0 && real(a.near) < 0 && oddRoot(b.exact) {
		z = complex(-math.Pow(-real(a.near), real(b.near)), 0) // the real one of the cube roots
	}
	v := nearly(z)
	if a.terms <= 2*cmplx.Abs(a.near) { // nothing cancelled, and e^{-40} is not 0
		v.terms = cmplx.Abs(z)
	}
	return v, finite(z) && (z != 0 || a.near == 0)
}

// finite reports whether double precision has a number.
func finite(z complex128) bool { return !cmplx.IsNaN(z) && !cmplx.IsInf(z) }

func oddRoot(r *big.Rat) bool {
	return r != nil && r.Num().IsInt64() && r.Num().Int64() == 1 && r.Denom().Bit(0) == 1 && !r.IsInt()
}

func wholePower(a *big.Rat, n int64) value {
	e := big.NewInt(max(n, -n))
	num, den := new(big.Int).Exp(a.Num(), e, nil), new(big.Int).Exp(a.Denom(), e, nil)
	if n < 0 {
		num, den = den, num
	}
	return exactly(new(big.Rat).SetFrac(num, den))
}
