package output

import (
	"bytes"
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var sameOutputs = []struct {
	got, want string
	same      bool
}{
	{"3\n", "3", true},
	{"\n\n 3 \t\n", "3\n", true},
	{"1\n2\n", "1\n2", true},
	{"1\r\n2\r\n", "1\n2\n", true},
	{"1 \n\x1c2\x85", "1\n2", false}, // a lone byte 85 is not the character U+0085
	{"1 \n\x1c2\u0085\u3000", "1\n2", true},
	{"1\n\n2", "1\n2", false},
	{"1\n2", "1\n2\n3", false},
	{"1\n2\n3", "1\n2", false},
	{"", "", true},
	{" \n ", "", true},
	{"", "0", false},

	{"YES", "NO", false},
	{"yes", "YES", false},
	{"Alice", "Bob", false},
	{"a  b", "a b", false},
	{"2 1", "1 2", false},
	{"1 1 2", "1 2 2", false},

	{"6.0", "6", true},
	{"1  2.50", "1 2.5", true},
	{"1e3", "1000", true},
	{"1E+3", "1000.000", true},
	{".5", "0.5", true},
	{"5.", "5", true},
	{"+5", "5", true},
	{"-0", "0", true},
	{"0e5", "-0.00", true},
	{"1_000", "1000", true},
	{"１２", "12", true},
	{"٣", "3", true},
	{"0.1", "0.10000000000000001", false},
	{"100000001", "100000000", false},
	{"3.0000001", "3", false},
	{"1 x", "1.0 x", false}, // both lines must be numbers throughout
	{"0x10", "16", false},
	{"1,5", "1.5", false},

	{"nan", "nan", true}, // equal as text
	{"nan 1", "nan 1.0", false},
	{"NaN", "nan", false},
	{"snan", "sNaN", false},
	{"inf", "Infinity", true},
	{"-inf", "Infinity", false},
	{"infinit", "inf", false},
	{"1e999999999", "1e999999999", true},
	{"1e999999999", "10e999999998", true},
	{"1e999999999", "1e999999998", false},
	{"1e99999999999999999999", "2e99999999999999999999", false},
	{"1e18446744073709551617", "10", false}, // of 2^64 + 1, and not 1
	{"1e-18446744073709551615", "10", false},
	{"\xff\xfe", "\ufffd\ufffd", false},
	{"1\x00", "1", false},
}

func TestSame(t *testing.T) {
	for _, tt := range sameOutputs {
		require.Equal(t, tt.same, Same([]byte(tt.got), tt.want), "%q, wanted %q", tt.got, tt.want)
	}
}

func TestClose(t *testing.T) {
	tests := []struct {
		got, want string
		tolerance float64
		same      bool
	}{
		{"3.0000001", "3", 1e-6, true},
		{"3.00001", "3", 1e-6, false},
		{"0.0000005", "0", 1e-6, true},
		{"1000000.5", "1000000", 1e-6, true},
		{"1000002", "1000000", 1e-6, false},
		{"-1000000.5", "-1000000", 1e-6, true},
		{"Case 1: 2.0000001", "Case 1: 2", 1e-6, true},
		{"Case 1: 2", "case 1: 2", 1e-6, false},
		{"1 2", "1\n2", 1e-6, false},
		{"1 2 3", "1 2", 1e-6, false},
		{"1e400", "10e399", 1e-6, true},
		{"1e400", "2e400", 1e-6, false},
		{"1e400", "inf", 1e-6, false},
		{"inf", "1", 1e9, false},
		{"inf", "inf", 1e-6, true},
		{"1", "inf", 1e-6, false},
		{"nan", "1", 1e9, false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.same, Close([]byte(tt.got), tt.want, tt.tolerance), "%q, wanted %q", tt.got, tt.want)
	}
}

// decimalWords are numbers, almost numbers, and the edges of what Python reads.
func decimalWords() []string {
	words := strings.Fields(`0 -0 +0 00 0.0 .0 0. . 1 1. +1 -1 --1 +-1 1e 1e+ e1 1e5 1E5 1e+5 1e-5 1e0005 10e4 100000 1.0e5 0.1e6
		1_0 _10 1__0 _ 1_e_5 1e_5 inf Inf -inf +infinity INFINITY infinit nan NaN -nan nan12 nan1a snan sNaN5 1,0 0x1 1j True
		1e999999999999999999 10e999999999999999998 10e999999999999999999 1e1000000000000000000 0e999999999999999999 0e1000000000000000000
		0.1e1000000000000000000 0.0e1000000000000000000 0.00e1000000000000000001 1e-1999999999999999997
		10e-1999999999999999998 1e-1999999999999999998 0e-1999999999999999997 0e-1999999999999999998 0.0e-1999999999999999997
		1e9223372036854775807 1e9223372036854775808 1e-99999999999999999999 1e400000000000000000 1e4000000000000000000
		1e00000000000000000000000000000000005`)
	words = append(words, "１２.５", "1E５", "٠١", "𝟏𝟐", "１_0", "＋1", "−1", "1٫5", "ınf", "1\x00", "½", "²", "५e२", "૦", "𞥑")
	rng := rand.New(rand.NewPCG(7, 7))
	for range 600 {
		const alphabet = "0123456789..eE+-_0051"
		word := make([]byte, 1+rng.IntN(8))
		for i := range word {
			word[i] = alphabet[rng.IntN(len(alphabet))]
		}
		words = append(words, string(word))
	}
	return words
}

const decimalReference = `
import sys, json
from decimal import Decimal
values, normal = json.load(sys.stdin), []
for word in values:
    try:
        d = Decimal(word)
    except Exception:
        normal.append(None)
        continue
    sign, digits, exponent = d.as_tuple()
    if d.is_nan():
        normal.append("nan")
    elif d.is_infinite():
        normal.append("-inf" if sign else "inf")
    elif not any(digits):
        normal.append("0")
    else:
        digits = "".join(map(str, digits))
        exponent += len(digits)
        digits = digits.rstrip("0")
        normal.append("%s0.%se%d" % ("-" if sign else "", digits, exponent))
spaces = [i for i in range(0x110000) if chr(i).isspace()]
numerals = {i: int(chr(i)) for i in range(0x110000) if chr(i).isdecimal()}
json.dump([normal, spaces, numerals], sys.stdout)
`

func (a decimal) String() string {
	sign := map[bool]string{true: "-"}[a.negative]
	switch {
	case a.kind == notANumber:
		return "nan"
	case a.kind == infinite:
		return sign + "inf"
	case a.digits == "":
		return "0"
	}
	return sign + "0." + a.digits + "e" + big.NewInt(a.exponent).String()
}

// python3 runs a script of the standard library, or skips the test.
func python3(t *testing.T, script string, stdin any) []byte {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to compare with")
	}
	input, err := json.Marshal(stdin)
	require.NoError(t, err)
	cmd := exec.Command(python, "-S", "-c", script)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	require.NoError(t, err)
	return out
}

func TestDecimalsAsPythonReadsThem(t *testing.T) {
	words := decimalWords()
	var normal []*string
	var spaces []rune
	var numerals map[rune]int
	require.NoError(t, json.Unmarshal(python3(t, decimalReference, words), &[]any{&normal, &spaces, &numerals}))
	require.Len(t, normal, len(words))
	for i, word := range words {
		d, ok := parseDecimal(word)
		if !ok {
			require.Nil(t, normal[i], "%q was not read", word)
			continue
		}
		require.NotNil(t, normal[i], "%q was read as %v", word, d)
		require.Equal(t, *normal[i], d.String(), "%q", word)
	}
	var ours []rune
	for r := range rune(unicode.MaxRune) {
		if isSpace(r) {
			ours = append(ours, r)
		}
	}
	require.Equal(t, spaces, ours)
	for r, value := range numerals {
		if unicode.Is(unicode.Nd, r) { // Python's Unicode and Go's may be of different years
			require.EqualValues(t, value, digit(r), "%U", r)
		}
	}
}

var plainNumber = regexp.MustCompile(`^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?$`)

// rational reads a word the slow way: small plain numbers are expanded.
func rational(word string) (*big.Rat, bool) {
	if !plainNumber.MatchString(word) {
		return nil, false
	}
	return new(big.Rat).SetString(word)
}

func FuzzCompare(f *testing.F) {
	for _, pair := range [][2]string{{"1 2", "1.0 2e0"}, {"nan", "NaN"}, {"\x85", ""}, {"1e5\n2", "100000 \n2"}, {"a b", "a  b"},
		{"1e99", ".1e100"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		got := Same([]byte(a), b)
		if got != Same([]byte(b), a) {
			t.Fatalf("%q and %q: one way only", a, b)
		}
		if !Same([]byte(a), a) {
			t.Fatalf("%q differs from itself", a)
		}
		if got && !Close([]byte(a), b, 0) {
			t.Fatalf("%q and %q: equal but not close", a, b)
		}
		if want, ok := slowSame(a, b); ok && got != want {
			t.Fatalf("%q and %q: %v, expanded %v", a, b, got, want)
		}
	})
}

// slowSame is the comparison restated over expanded numbers; ok says whether all words are such that
// it can decide.
func slowSame(a, b string) (same, ok bool) {
	lines := func(s string) []string {
		out := strings.Split(strip(s), "\n")
		for i := range out {
			out[i] = strip(out[i])
		}
		return out
	}
	as, bs := lines(a), lines(b)
	if len(as) != len(bs) {
		return false, true
	}
	same = true
	for i := range as {
		if as[i] == bs[i] {
			continue
		}
		aw, bw := strings.FieldsFunc(as[i], isSpace), strings.FieldsFunc(bs[i], isSpace)
		if len(aw) != len(bw) {
			same = false
			continue
		}
		for j := range aw {
			x, xOK := rational(aw[j])
			y, yOK := rational(bw[j])
			if !xOK || !yOK {
				return false, false
			}
			same = same && x.Cmp(y) == 0
		}
	}
	return same, true
}
