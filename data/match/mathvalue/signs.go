package mathvalue

import (
	"regexp"
	"strings"
)

// signs maps Unicode characters to ASCII or LaTeX.
var signs = strings.NewReplacer(append(strings.Fields(`
	½ \frac{1}{2} ⅓ \frac{1}{3} ⅔ \frac{2}{3} ¼ \frac{1}{4} ¾ \frac{3}{4} ⅕ \frac{1}{5} ⅖ \frac{2}{5} ⅗ \frac{3}{5} ⅘ \frac{4}{5}
	⅙ \frac{1}{6} ⅚ \frac{5}{6} ⅐ \frac{1}{7} ⅛ \frac{1}{8} ⅜ \frac{3}{8} ⅝ \frac{5}{8} ⅞ \frac{7}{8} ⅑ \frac{1}{9} ⅒ \frac{1}{10}
	⋅ * ∙ * • * ∗ * ⁄ / ∕ / ‐ - ‑ - º ° ˚ ° 。 . 、 ,`), spaced(`
	α \alpha β \beta γ \gamma δ \delta ε \epsilon ζ \zeta η \eta θ \theta κ \kappa λ \lambda μ \mu ν \nu ξ \xi ρ \rho σ \sigma τ \tau
	φ \phi χ \chi ψ \psi ω \omega Γ \Gamma Δ \Delta Θ \Theta Λ \Lambda Σ \Sigma Φ \Phi Ψ \Psi Ω \Omega √ \sqrt ∛ \sqrt[3] ≈ \approx`)...)...)

// spaced appends a space to each command in a list of pairs of a character and a command.
func spaced(pairs string) []string {
	all := strings.Fields(pairs)
	for i := 1; i < len(all); i += 2 {
		all[i] += " "
	}
	return all
}

var (
	subscripts     = strings.NewReplacer(strings.Fields(`₀ 0 ₁ 1 ₂ 2 ₃ 3 ₄ 4 ₅ 5 ₆ 6 ₇ 7 ₈ 8 ₉ 9 ₙ n`)...)
	superscripts   = strings.NewReplacer(strings.Fields(`⁰ 0 ¹ 1 ² 2 ³ 3 ⁴ 4 ⁵ 5 ⁶ 6 ⁷ 7 ⁸ 8 ⁹ 9 ⁿ n ⁻ - ⁺ +`)...)
	subscriptRun   = regexp.MustCompile(`[₀-₉ₙ]+`)
	superscriptRun = regexp.MustCompile(`[⁰¹²³⁴-⁹ⁿ⁻⁺]+`)
	rooted         = regexp.MustCompile(`([√∛])\s*(\d+(?:\.\d+)?)`)
	thinGroups     = regexp.MustCompile(`\b\d{1,3}(?:(?:\\,|[~\x{a0}\x{202f}\x{2009}])\d{3})+\b`) // these never stand between two numbers
	spacedGroups   = regexp.MustCompile(`^([-+$\s]*\d{1,3})((?: \d{3})+)(\.\d+)?$`)
	percent        = regexp.MustCompile(`(\d)\s*percent\b`)
	timesTen       = regexp.MustCompile(`(\d)\s*x\s*10\s*\^`)
)

// ascii joins thousands that are grouped by thin or non-breaking spaces, and maps full-width characters and Unicode spaces to ASCII.
func ascii(s string) string {
	s = thinGroups.ReplaceAllStringFunc(s, func(n string) string {
		return strings.Map(func(r rune) rune {
			if r == '.' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, n)
	})
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '！' && r <= '～':
			return r - '！' + '!'
		case r == '\u00a0' || r == '\u202f' || r >= '\u2000' && r <= '\u200a' || r == '\u3000':
			return ' '
		}
		return r
	}, s)
}

// typed writes Unicode mathematics as LaTeX: x² as x^{2}, √12 as \sqrt{12}.
func typed(s string) string {
	s = superscriptRun.ReplaceAllStringFunc(s, func(n string) string { return "^{" + superscripts.Replace(n) + "}" })
	s = subscriptRun.ReplaceAllStringFunc(s, func(n string) string { return "_{" + subscripts.Replace(n) + "}" })
	s = signs.Replace(rooted.ReplaceAllString(s, "$1{$2}"))
	s = percent.ReplaceAllString(timesTen.ReplaceAllString(s, "$1*10^"), "$1%")
	s = strings.TrimPrefix(strings.TrimSpace(s), `\approx `)
	if m := spacedGroups.FindStringSubmatch(s); m != nil {
		s = m[1] + strings.ReplaceAll(m[2], " ", "") + m[3]
	}
	return s
}
