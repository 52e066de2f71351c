package mathvalue

import (
	"math"
	"math/big"
	"math/cmplx"
	"strconv"
	"strings"
)

// value is a number as a complex of double precision, and also exactly if it is rational and not too large.
type value struct {
	exact *big.Rat // nil: not known to be rational, or too large
	near  complex128
	terms float64 // the magnitude of the terms it was computed from: the rounding error after cancellation is relative to it
}

// bits bounds the size of exact numbers; it suffices to tell answers such as 2023^2024 apart. Powers of fractions have a lower bound,
// because every operation on them reduces to lowest terms.
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

// equal compares exactly if both are exact, else within the rounding error of a long calculation.
func (v value) equal(w value) bool {
	if v.exact != nil && w.exact != nil {
		return v.exact.Num().Cmp(w.exact.Num()) == 0 && v.exact.Denom().Cmp(w.exact.Denom()) == 0 // both are in lowest terms
	}
	if cmplx.IsInf(v.near) || cmplx.IsInf(w.near) { // an exact number too large for double precision is not infinity
		return v.exact == nil && w.exact == nil && v.near == w.near
	}
	const within = 1e-9
	cancelled := min(max(v.terms, w.terms), 1) * 1e-3
	return cmplx.Abs(v.near-w.near) <= within*max(cmplx.Abs(v.near), cmplx.Abs(w.near), cancelled)
}

// scope assigns a value to each variable.
type scope struct{ place int }

// evaluate computes the value of an expression without collections; not ok: it is undefined.
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
		return quotientOf(args[0], args[1])
	case power:
		return raise(args[0], args[1])
	case percentage:
		return quotientOf(args[0], exactly(big.NewRat(100, 1)))
	case factorial:
		return factorials(args[0])
	case call:
		return apply(n.text, args)
	}
	return v, false
}

// decimal parses a number. Huge exponents are refused, as their digits would take too much memory.
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

// variable is a pseudorandom number determined by a name and a place. i and e are the constants. At far places k, l, m and n are integers,
// because identities with rounding often need them: ⌈n/2⌉ is ⌊(n+1)/2⌋.
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

func quotientOf(a, b value) (value, bool) {
	if b.near == 0 {
		return value{}, false
	}
	if a.exact != nil && b.exact != nil {
		return exactly(new(big.Rat).Quo(a.exact, b.exact)), true
	}
	return value{near: a.near / b.near, terms: a.terms / cmplx.Abs(b.near)}, true
}

// raise is exact for integer exponents that are not too large, and for rational square roots.
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
		z = complex(-math.Pow(-real(a.near), real(b.near)), 0) // the real root, not the principal one
	}
	v := nearly(z)
	if a.terms <= 2*cmplx.Abs(a.near) { // nothing cancelled in a, so that a tiny result such as e^{-40} is not taken for 0
		v.terms = cmplx.Abs(z)
	}
	return v, finite(z) && (z != 0 || a.near == 0)
}

// finite reports whether z is neither NaN nor infinite.
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
