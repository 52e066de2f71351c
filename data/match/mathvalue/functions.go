package mathvalue

import (
	"math"
	"math/big"
	"math/cmplx"
)

// functions are the known functions by name; nil: apply computes it itself.
var functions = map[string]func(complex128) complex128{
	"sin": cmplx.Sin, "cos": cmplx.Cos, "tan": cmplx.Tan, "cot": cmplx.Cot,
	"sec":    func(z complex128) complex128 { return 1 / cmplx.Cos(z) },
	"csc":    func(z complex128) complex128 { return 1 / cmplx.Sin(z) },
	"arcsin": cmplx.Asin, "arccos": cmplx.Acos, "arctan": cmplx.Atan, "asin": cmplx.Asin, "acos": cmplx.Acos, "atan": cmplx.Atan,
	"sinh": cmplx.Sinh, "cosh": cmplx.Cosh, "tanh": cmplx.Tanh,
	"ln": cmplx.Log, "exp": cmplx.Exp,
	"pi": nil, "abs": nil, "floor": nil, "ceil": nil, "min": nil, "max": nil, "gcd": nil, "lcm": nil, "binom": nil,
}

// apply evaluates a function.
func apply(name string, args []value) (v value, ok bool) {
	if f := functions[name]; f != nil && len(args) == 1 {
		z := f(args[0].near)
		if v = nearly(z); name == "exp" {
			v.terms = cmplx.Abs(z)
		}
		return v, finite(z) && (z != 0 || name != "exp")
	}
	switch {
	case name == "pi":
		return nearly(complex(math.Pi, 0)), true
	case name == "log" && len(args) == 1:
		return quotientOf(nearly(cmplx.Log(args[0].near)), nearly(complex(math.Ln10, 0)))
	case name == "log" && len(args) == 2:
		return quotientOf(nearly(cmplx.Log(args[0].near)), nearly(cmplx.Log(args[1].near)))
	case name == "abs" && len(args) == 1:
		if r := args[0].exact; r != nil {
			return exactly(new(big.Rat).Abs(r)), true
		}
		return nearly(complex(cmplx.Abs(args[0].near), 0)), true
	case (name == "floor" || name == "ceil") && len(args) == 1:
		return whole(name, args[0])
	case (name == "min" || name == "max") && len(args) > 0:
		return extreme(name, args), true
	case len(args) == 2 && args[0].exact != nil && args[1].exact != nil && args[0].exact.IsInt() && args[1].exact.IsInt():
		return ofIntegers(name, args[0].exact.Num(), args[1].exact.Num())
	}
	return v, false
}

func whole(name string, a value) (value, bool) {
	if a.exact == nil {
		f := math.Floor(real(a.near))
		if name == "ceil" {
			f = math.Ceil(real(a.near))
		}
		return nearly(complex(f, 0)), imag(a.near) == 0
	}
	n := new(big.Int).Div(a.exact.Num(), a.exact.Denom()) // the denominator is positive, so this is the floor
	if name == "ceil" && !a.exact.IsInt() {
		n.Add(n, big.NewInt(1))
	}
	return exactly(new(big.Rat).SetInt(n)), true
}

func extreme(name string, args []value) value {
	best := args[0]
	for _, a := range args[1:] {
		if real(a.near) < real(best.near) == (name == "min") {
			best = a
		}
	}
	return best
}

func ofIntegers(name string, a, b *big.Int) (v value, ok bool) {
	switch name {
	case "gcd":
		return exactly(new(big.Rat).SetInt(new(big.Int).GCD(nil, nil, new(big.Int).Abs(a), new(big.Int).Abs(b)))), true
	case "lcm":
		if a.Sign() == 0 || b.Sign() == 0 {
			return exactly(new(big.Rat)), true
		}
		g := new(big.Int).GCD(nil, nil, new(big.Int).Abs(a), new(big.Int).Abs(b))
		n := new(big.Int).Mul(new(big.Int).Abs(a), new(big.Int).Abs(b))
		return exactly(new(big.Rat).SetInt(n.Div(n, g))), true
	case "binom":
		if a.IsInt64() && b.IsInt64() && a.Sign() >= 0 && b.Sign() >= 0 && a.Int64() <= 1000 {
			return exactly(new(big.Rat).SetInt(new(big.Int).Binomial(a.Int64(), b.Int64()))), true
		}
	}
	return v, false
}

func factorials(a value) (value, bool) {
	if a.exact == nil || !a.exact.IsInt() || a.exact.Sign() < 0 || a.exact.Num().BitLen() > 8 {
		return value{}, false
	}
	return exactly(new(big.Rat).SetInt(new(big.Int).MulRange(1, max(a.exact.Num().Int64(), 1)))), true
}
