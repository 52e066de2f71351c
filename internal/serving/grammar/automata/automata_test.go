package automata

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func budget() *Budget {
	b := InitialBudget
	return &b
}

// Patterns match like package regexp, anchored and unanchored.
func TestPatterns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, pattern := range []string{
		`a`, `^a`, `a$`, `^$`, `^a*b$`, `a|^b|c$`, `(a|ab)(c|bcd)(d*)`, `[^a]b`, `(?i)Kß`, `a{2,3}b{0,2}`, `^(a|$)`, `(^a|b)+$`, `\d\D\w\W\s\S`,
		`[日-本é]+`, `\p{Greek}a?`, `(a?){3}a{3}`, `()`, `a\.b`, `x*y+z?`, `[\x00-\x{10FFFF}]a`, `(?:a$|b)c?`,
	} {
		some, err := Containing(budget(), pattern)
		require.NoError(t, err)
		whole, err := FullMatch(budget(), pattern)
		require.NoError(t, err)
		for range 150 {
			text := make([]rune, rng.IntN(7))
			for i := range text {
				text[i] = []rune("aabbccdKkß日é αx1 .yz\x7fs")[rng.IntN(22)]
			}
			require.Equal(t, regexp.MustCompile(pattern).MatchString(string(text)), some.Matches(string(text)), "%s %q", pattern, string(text))
			require.Equal(t, regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(string(text)), whole != nil && whole.Matches(string(text)),
				"%s wholly %q", pattern, string(text))
		}
	}
}

// \s is that of ECMA-262, which has more characters than that of package regexp.
func TestSpaces(t *testing.T) {
	const spaces = " \t\n\v\f\r\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
	for pattern, taken := range map[string]string{
		`\S`: "aé", `[\S]`: "aé", `[^\s]`: "aé", `[^\s-b]`: "aé", `[^\s[:alpha:]\s]`: "é", `\s`: spaces, `[^\S]`: spaces, `[\s-é]`: spaces + "é",
		`[\s\S]`: "aé" + spaces, `\S|\s`: "aé" + spaces, `\\S`: "", `[\\s]`: "",
	} {
		a, err := FullMatch(budget(), pattern)
		require.NoError(t, err, pattern)
		for _, r := range "aé" + spaces {
			require.Equal(t, strings.ContainsRune(taken, r), a.Matches(string(r)), "%s %q", pattern, r)
		}
	}
}

// [] is an empty class in ECMA-262, while package regexp takes the bracket as its first character.
func TestEmptyClasses(t *testing.T) {
	for _, pattern := range []string{`a[^][b]`, `[]b]`} {
		_, err := Containing(budget(), pattern)
		require.ErrorContains(t, err, "not everybody reads alike")
	}
	for _, pattern := range []string{`\[]`, `[[]`, `[\]]`, `[^\]]`} {
		_, err := Containing(budget(), pattern)
		require.NoError(t, err)
	}
}

// The automaton for numbers between limits accepts the same numbers as arithmetic.
func TestNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	draw := func() string {
		text := fmt.Sprint(rng.IntN(300))
		if rng.IntN(2) == 0 {
			text += fmt.Sprintf(".%0*d", 1+rng.IntN(3), rng.IntN(10))
		}
		return strings.Repeat("-", rng.IntN(2)) + text
	}
	for range 60 {
		n := Numbers{Integers: rng.IntN(2) == 0, Fraction: FractionDigits}
		if n.Integers && rng.IntN(2) == 0 {
			n.Multiple = 1 + rng.IntN(12)
		}
		lo, err := NewDecimal(draw())
		require.NoError(t, err)
		hi, err := NewDecimal(draw())
		require.NoError(t, err)
		n.Lo, n.Hi = []Limit{{lo, rng.IntN(2) == 0}}, []Limit{{hi, rng.IntN(2) == 0}}
		a, err := n.Automaton(budget())
		require.NoError(t, err)
		for range 40 {
			text := draw()
			if rng.IntN(4) == 0 {
				text = []string{lo.String(), hi.String()}[rng.IntN(2)]
			}
			x, below, above := rational(text), rational(lo.String()), rational(hi.String())
			want := x.Cmp(below) >= 0 && x.Cmp(above) <= 0 && !(n.Lo[0].Strict && x.Cmp(below) == 0) && !(n.Hi[0].Strict && x.Cmp(above) == 0)
			if n.Integers {
				whole := !strings.Contains(text, ".")
				want = want && whole && (n.Multiple < 2 || new(big.Rat).Quo(x, big.NewRat(int64(n.Multiple), 1)).IsInt())
			}
			if x.Sign() == 0 && text[0] == '-' { // negative zero is not written
				want = false
			}
			require.Equal(t, want, a != nil && a.Matches(text), "%+v %s", n, text)
		}
	}
}

func rational(text string) *big.Rat {
	r, _ := new(big.Rat).SetString(text)
	return r
}

func TestDecimals(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0.0": "0", "12e3": "12000", "1.50": "1.5", "-5e-3": "-0.005", "0.00e7": "0", "123.456e1": "1234.56", "1e0": "1",
	} {
		d, err := NewDecimal(text)
		require.NoError(t, err)
		require.Equal(t, want, d.String())
	}
	for _, text := range []string{"1e61", "1e-99999999999999999999", strings.Repeat("1", 61)} {
		_, err := NewDecimal(text)
		require.Error(t, err)
	}
}

// Complements and lengths.
func TestTexts(t *testing.T) {
	names := []string{"a", "ab", "é", "日本"}
	other, err := OtherThan(budget(), names)
	require.NoError(t, err)
	for _, text := range []string{"", "b", "abc", "日", "e", "aa", "日本a"} {
		require.True(t, other.Matches(text), text)
	}
	for _, text := range names {
		require.False(t, other.Matches(text), text)
	}
	for _, c := range []struct{ least, most int }{{0, -1}, {2, -1}, {2, 3}, {0, 0}} {
		a, err := OfLength(budget(), c.least, c.most)
		require.NoError(t, err)
		for n := range 6 {
			require.Equal(t, n >= c.least && (c.most < 0 || n <= c.most), a.Matches(strings.Repeat("é", n)))
		}
	}
}
