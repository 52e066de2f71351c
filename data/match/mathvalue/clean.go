package mathvalue

import (
	"regexp"
	"strings"
)

// spellings maps the spellings of a symbol to one of them. A command mapped to itself is protected from its prefixes, as \leftarrow
// from \left.
var spellings = strings.NewReplacer(
	`\leftarrow`, `\leftarrow`, `\rightarrow`, `\rightarrow`, `\pmod`, `\pmod`, `\cdots`, `\cdots`, `\leqslant`, "≤", `\geqslant`, "≥",
	`\neq`, `\ne`, "≠", `\ne `,
	`\\`, `\\`, `\left`, "", `\right`, "", `\!`, "", `\,`, " ", `\;`, " ", `\:`, " ", `\ `, " ", `\quad`, " ", `\qquad`, " ", "~", " ",
	`\displaystyle`, "", `\dfrac`, `\frac`, `\tfrac`, `\frac`, `\cfrac`, `\frac`, `\$`, "", "$", "", "€", "", "£", "",
	`\(`, "", `\)`, "", `\[`, "", `\]`, "",
	`^\circ`, "°", `^{\circ}`, "°", `^\degree`, "°", `\degree`, "°", `\cdot`, "*", `\times`, "*", "×", "*", "·", "*", "÷", "/", `\div`, "/",
	"−", "-", "–", "-", `\leq`, "≤", `\le`, "≤", `\geq`, "≥", `\ge`, "≥", "<=", "≤", ">=", "≥", `\lt`, "<", `\gt`, ">",
	`\infty`, "∞", `\int`, `\int`, `\inf`, "∞", "`", "",
	`\cup`, "∪", `\pm`, "±", `\{`, "⦃", `\}`, "⦄", `\lbrace`, "⦃", `\rbrace`, "⦄", `\pi`, "π", `\%`, "%",
	`\emptyset`, "⦃⦄", `\varnothing`, "⦃⦄", "∅", "⦃⦄", `\mathbb{R}`, "(-∞,∞)", `\mathbb R`, "(-∞,∞)", "ℝ", "(-∞,∞)",
	`{,}`, ",", `\colon`, ":", `\langle`, "(", `\rangle`, ")",
	`\in`, "∈", `\lvert`, "|", `\rvert`, "|", `\vert`, "|", `\lfloor`, "⌊", `\rfloor`, "⌋", `\lceil`, "⌈", `\rceil`, "⌉", "**", "^",
)

var (
	listed    = regexp.MustCompile(`,?\s+(?:or|and)\s+`)
	eitherOr  = regexp.MustCompile(`,?\s+or\s+`)
	periodic  = regexp.MustCompile(`(?:\b(\d{1,99}))?\.(\d{0,99})\s*\\(?:overline|bar)\s*(?:\{(\d{1,99})\}|(\d))`)
	bracketed = regexp.MustCompile(`(\d\.)\((\d{1,99})\)`) // 0.(3) is 0.\overline{3}
	shortFrac = regexp.MustCompile(`\\frac\s*(\d)\s*(\d)`)
)

// clean removes what does not change the value: dollar signs, spacing, units after a number, a full stop.
func clean(s string) string {
	s = ascii(strings.TrimSpace(s))
	s = spellings.Replace(s)
	s = typed(plain(s))
	s = bracketed.ReplaceAllString(s, `$1\overline{$2}`)
	s = periodic.ReplaceAllStringFunc(s, fraction)
	s = shortFrac.ReplaceAllString(s, `\frac{$1}{$2}`)
	return strings.TrimSpace(strings.TrimRight(strings.TrimSpace(s), ".;"))
}

// list replaces "or" and "and" by commas; between inequalities only "or", as "and" means their intersection.
func list(s string) string {
	if strings.ContainsAny(s, "<>≤≥") {
		return eitherOr.ReplaceAllString(s, ", ")
	}
	return listed.ReplaceAllString(s, ", ")
}

var label = regexp.MustCompile(`^(?:([A-Za-z]{3,}[A-Za-z ]*)|[A-Za-z]\s*'+\s*(?:\([A-Za-z]\))?|\\frac\s*\{d[A-Za-z]\}\s*\{d[A-Za-z]\})\s*=`)

// unlabelled drops a left side that the parser cannot read as a name: Area = 25, f'(x) = 2x.
func unlabelled(s string) string {
	m := label.FindStringSubmatch(s)
	if m == nil || m[1] != "" && !prose(m[1]) { // sin x = 1/2 is an equation
		return s
	}
	return strings.TrimSpace(s[len(m[0]):])
}

// fraction writes a repeating decimal as a fraction: 0.1\overline{6} is (16-1)/90.
func fraction(s string) string {
	m := periodic.FindStringSubmatch(s)
	before, again := "0"+m[1]+m[2], m[3]+m[4]
	return "((" + before + again + "-" + before + ")/" + strings.Repeat("9", len(again)) + strings.Repeat("0", len(m[2])) + ")"
}

var (
	grouped = regexp.MustCompile(`\b\d{1,3}(?:,\d{3})+\b`)
	unit    = []*regexp.Regexp{regexp.MustCompile(`\s*%`), regexp.MustCompile(`\s*°`)}
)

// readings are the possible meanings of a text that is compared with another. Commas may separate thousands or elements. A percent or
// degree sign may be a mere unit if the other text has no such sign: 50% equals 50 and 0.5, but not 0.5%.
func readings(s, beside string) (all []expression) {
	texts := []string{s}
	if merged := grouped.ReplaceAllStringFunc(s, func(n string) string { return strings.ReplaceAll(n, ",", "") }); merged != s {
		texts = append(texts, merged)
	}
	for _, sign := range unit {
		if sign.MatchString(beside) {
			continue
		}
		for _, t := range texts {
			if sign.MatchString(t) {
				texts = append(texts, sign.ReplaceAllString(t, ""))
			}
		}
	}
	for _, t := range texts {
		if e, ok := parse(t); ok {
			all = append(all, expression{e})
		}
	}
	return all
}
