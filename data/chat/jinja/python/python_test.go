package python

import (
	"math"
	"testing"
)

// Results of Python itself are in testdata/dialect.json of package jinja. This covers what templates cannot call, or only slowly.
func TestEdges(t *testing.T) {
	for _, f := range []float64{math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64, math.SmallestNonzeroFloat64} {
		for _, digits := range []int{0, 2, 400, math.MaxInt} {
			if got := Round(f, digits); got != f && !(f == math.SmallestNonzeroFloat64 && got == 0) || math.Signbit(got) != math.Signbit(f) {
				t.Errorf("%v to %d digits is %v", f, digits, got)
			}
		}
		if got := Round(f, math.MinInt); !math.IsInf(f, 0) && got != 0 {
			t.Errorf("%v to no digit is %v", f, got)
		}
	}
	if got := Round(math.NaN(), 2); !math.IsNaN(got) {
		t.Errorf("no number is %v", got)
	}
	if got := RoundInt(math.MinInt64, math.MinInt); got.Sign() != 0 {
		t.Errorf("%v", got)
	}
	digits := make([]byte, longestNumber+1)
	for i := range digits {
		digits[i] = '1'
	}
	if _, ok := Int(string(digits), 10); ok {
		t.Error("a number of more digits than Python reads")
	}
	if n, ok := Int(string(digits[1:]), 10); !ok || len(n.String()) != longestNumber {
		t.Error("the longest number is not read")
	}
	for _, s := range []string{"", "-", "0x", "x", "1 2", "_"} {
		if n, ok := Int(s, 0); ok {
			t.Errorf("%q is %v", s, n)
		}
	}
}
