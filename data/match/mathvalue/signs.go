package mathvalue

import (
	"regexp"
	"strings"
)

// signs are characters that stand for others, or for LaTeX.
var signs = strings.NewReplacer(append(strings.Fields(`
	½ \frac{1}{2} ⅓ \frac{1}{3} ⅔ \frac{2}{3} ¼ \frac{1}{4} ¾ \frac{3}{4} ⅕ \frac{1}{5} ⅖ \frac{2}{5} ⅗ \frac{3}{5} ⅘ \frac{4}{5}
	⅙ \frac{1}{6} ⅚ \frac{5}{6} ⅐ \frac{1}{7} ⅛ \frac{1}{8} ⅜ \frac{3}{8} ⅝ \frac{5}{8} ⅞ \frac{7}{8} ⅑ \frac{1}{9} ⅒ \frac{1}{10}
	⋅ * ∙ * • * ∗ * ⁄ / ∕ / ‐ - ‑ - º ° ˚ ° 。 . 、 ,`), spaced(`
	α \alpha β \beta γ \gamma δ \delta ε \epsilon ζ \zeta η \eta θ \theta κ \kappa λ \lambda μ \mu ν \nu ξ \xi ρ \rho σ \sigma τ \tau
	φ \phi χ \chi ψ \psi ω \omega Γ \Gamma Δ \Delta Θ \Theta Λ \Lambda Σ \Sigma Φ \Phi Ψ \Psi Ω \Omega √ \sqrt ∛ \sqrt[3] ≈ \approx`)...)...)

// spaced are pairs of a character and a command, which ends with a space.
func spaced(pairs string) []string {
	all := strings.Fields(pairs)
	for i := 1; i < len(all); i += 2 {
		all[i] += " "
	}
	return all
}

var (
	below    = strings.NewReplacer(strings.Fields(`₀ 0 ₁ 1 ₂ 2 ₃ 3 ₄ 4 ₅ 5 ₆ 6 ₇ 7 ₈ 8 ₉ 9 ₙ n`)...)
	above    = strings.NewReplacer(strings.Fields(`⁰ 0 ¹ 1 ² 2 ³ 3 ⁴ 4 ⁵ 5 ⁶ 6 ⁷ 7 ⁸ 8 ⁹ 9 ⁿ n ⁻ - ⁺ +`)...)
	lowered  = regexp.MustCompile(`[₀-₉ₙ]+`)
	lifted   = regexp.MustCompile(`[⁰¹²³⁴-⁹ⁿ⁻⁺]+`)
	rooted   = regexp.MustCompile(`([√∛])\s*(\d+(?:\.\d+)?)`)
	thin     = regexp.MustCompile(`\b\d{1,3}(?:(?:\\,|[~\x{a0}\x{202f}\x{2009}])\d{3})+\b`) // these never stand between two numbers
	wide     = regexp.MustCompile(`^([-+$\s]*\d{1,3})((?: \d{3})+)(\.\d+)?$`)
	percent  = regexp.MustCompile(`(\d)\s*percent\b`)
	timesTen = regexp.MustCompile(`(\d)\s*x\s*10\s*\^`)
)

// ascii is a text in which thousands are grouped by nothing, and characters of full width and spaces of all kinds are those of ASCII.
func ascii(s string) string {
	s = thin.ReplaceAllStringFunc(s, func(n string) string {
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

// typed is a text whose signs are written as they are typed: x² is x^{2}, and √12 \sqrt{12}.
func typed(s string) string {
	s = lifted.ReplaceAllStringFunc(s, func(n string) string { return "^{" + above.Replace(n) + "}" })
	s = lowered.ReplaceAllStringFunc(s, func(n string) string { return "_{" + below.Replace(n) + "}" })
	s = signs.Replace(rooted.ReplaceAllString(s, "$1{$2}"))
	s = percent.ReplaceAllString(timesTen.ReplaceAllString(s, "$1*10^"), "$1%")
	s = strings.TrimPrefix(strings.TrimSpace(s), `\approx `)
	if m := wide.FindStringSubmatch(s); m != nil {
		s = m[1] + strings.ReplaceAll(m[2], " ", "") + m[3]
	}
	return s
}
