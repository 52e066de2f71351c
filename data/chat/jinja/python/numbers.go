package python

import (
	"math"
	"math/big"
	"strings"
)

// longestNumber is the most digits that Python's int reads.
const longestNumber = 4300

// Int parses a number in a base like Python's int: with a sign, a prefix 0x, 0o or 0b of that base (of any base if base is 0), and single
// underscores between digits.
func Int(s string, base int) (*big.Int, bool) {
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	said := 0
	if len(s) > 1 && s[0] == '0' {
		said = map[byte]int{'x': 16, 'o': 8, 'b': 2}[s[1]|0x20]
	}
	switch {
	case said != 0 && (base == 0 || base == said):
		base, s = said, strings.TrimPrefix(s[2:], "_")
	case base == 0:
		if base = 10; strings.HasPrefix(s, "0") && strings.Trim(s, "0_") != "" {
			return nil, false
		}
	}
	if base < 2 || base > 36 || len(s) > longestNumber || strings.Contains("_"+s+"_", "__") || strings.ContainsAny(s, "+-") {
		return nil, false
	}
	return new(big.Int).SetString(sign+strings.ReplaceAll(s, "_", ""), base)
}

// Beyond mostDigits digits after the point, or before it, rounding does not change a float64 any more.
const mostDigits = 350

// Round rounds half to even, to a number of digits after the point, or before it if digits is negative. It rounds the exact value of the
// number, and not its product with a power of ten.
func Round(f float64, digits int) float64 {
	if math.IsInf(f, 0) || math.IsNaN(f) || digits > mostDigits {
		return f
	}
	r, _ := toEven(new(big.Rat).SetFloat64(f), digits).Float64()
	return math.Copysign(r, f)
}

// RoundInt is Round for integers.
func RoundInt(n int64, digits int) *big.Int {
	if digits >= 0 {
		return big.NewInt(n)
	}
	return toEven(new(big.Rat).SetInt64(n), digits).Num()
}

// toEven rounds half to even, to a number of digits.
func toEven(x *big.Rat, digits int) *big.Rat {
	digits = max(digits, -mostDigits)
	power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(digits, -digits))), nil))
	if digits < 0 {
		power.Inv(power)
	}
	x.Mul(x, power)
	n, rest := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int)) // DivMod rounds down
	if c := rest.Lsh(rest, 1).Cmp(x.Denom()); c > 0 || c == 0 && n.Bit(0) == 1 {
		n.Add(n, big.NewInt(1))
	}
	return x.Quo(new(big.Rat).SetInt(n), power)
}
