package mathvalue

import (
	"regexp"
	"strings"
)

// spellings are written in one way before anything is read.
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

// clean takes away what changes no value: dollars, spacing, units behind a number, a full stop.
func clean(s string) string {
	s = ascii(strings.TrimSpace(s))
	s = spellings.Replace(s)
	s = typed(plain(s))
	s = bracketed.ReplaceAllString(s, `$1\overline{$2}`)
	s = periodic.ReplaceAllStringFunc(s, fraction)
	s = shortFrac.ReplaceAllString(s, `\frac{$1}{$2}`)
	return strings.TrimSpace(strings.TrimRight(strings.TrimSpace(s), ".;"))
}

// list is a text with commas for its or and and. Of inequalities, x > 1 and x < 3 is not what x > 1 or x < 3 is.
func list(s string) string {
	if strings.ContainsAny(s, "<>≤≥") {
		return eitherOr.ReplaceAllString(s, ", ")
	}
	return listed.ReplaceAllString(s, ", ")
}

var label = regexp.MustCompile(`^(?:([A-Za-z]{3,}[A-Za-z ]*)|[A-Za-z]\s*'+\s*(?:\([A-Za-z]\))?|\\frac\s*\{d[A-Za-z]\}\s*\{d[A-Za-z]\})\s*=`)

// unlabelled is an answer without what it is said to be the value of, where the parser has no name for that: Area = 25, f'(x) = 2x.
func unlabelled(s string) string {
	m := label.FindStringSubmatch(s)
	if m == nil || m[1] != "" && !prose(m[1]) { // sin x = 1/2 is an equation
		return s
	}
	return strings.TrimSpace(s[len(m[0]):])
}

// fraction is 0.1\overline{6} as (16-1)/90.
func fraction(s string) string {
	m := periodic.FindStringSubmatch(s)
	before, again := "0"+m[1]+m[2], m[3]+m[4]
	return "((" + before + again + "-" + before + ")/" + strings.Repeat("9", len(again)) + strings.Repeat("0", len(m[2])) + ")"
}

var (
	grouped = regexp.MustCompile(`\b\d{1,3}(?:,\d{3})+\b`)
	unit    = []*regexp.Regexp{regexp.MustCompile(`\s*%`), regexp.MustCompile(`\s*°`)}
)

// readings are what a text may mean beside another: thousands may be grouped by commas, and signs of percent and degrees may be units where
// the other text has none. 50% is 50 and a half, but not 0.5%.
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
