package mathvalue

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// saysMore are words behind a number that make another one of it, or that begin something else than what was counted.
var saysMore = set(`hundred thousand million billion trillion k dozen score ten half halve third quarter fourth fifth sixth seventh eighth
	ninth tenth hundredth thousandth less more fewer than or and but not no to if for when where with is mod`)

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(words) {
		all[w] = true
	}
	return all
}

var (
	unitText = regexp.MustCompile(`\\(text|textrm|mathrm|textbf|mathbf|mbox|operatorname)\s*\{([^{}]*)\}` +
		`(\s*\^\s*(?:-?\d|\{\s*-?\d+\s*\}))?`) // of square centimetres
	ofUnits = regexp.MustCompile(`^(?:[\pL\pM\s./()'°%²³*-]|[A-Za-z]\^?\d)*$`)
	choice  = regexp.MustCompile(`^\([A-Z]\)$`)
	behind  = regexp.MustCompile(`^(?:$|or\b|and\b|[^\pL\d(_])`)
	valued  = regexp.MustCompile(`^\s*(?:[-\d.]|\\frac|\\sqrt)`)
)

// Unit reports whether words behind a number say no more than what is counted: 18 hours is 18, while 18 thousand is not.
func Unit(words string) bool {
	all := strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return !unicode.IsLetter(r) })
	for _, w := range all {
		if saysMore[w] || saysMore[strings.TrimSuffix(w, "s")] {
			return false
		}
	}
	return len(all) <= 5 && ofUnits.MatchString(words)
}

// plain is a mathematical text without its \text{…} and the like: units behind a value go, all other words stay.
func plain(s string) string {
	var out strings.Builder
	at, worded := 0, false // worded: what was written last are words
	for _, m := range unitText.FindAllStringSubmatchIndex(s, -1) {
		out.WriteString(s[at:m[0]])
		worded = worded && strings.TrimSpace(s[at:m[0]]) == ""
		command, inner, raised := s[m[2]:m[3]], strings.TrimSpace(s[m[4]:m[5]]), ""
		if m[6] >= 0 {
			raised = s[m[6]:m[7]]
		}
		before, rest := strings.TrimSpace(out.String()), strings.TrimSpace(s[m[1]:])
		at = m[1]
		switch {
		case inner == "or" || inner == "and":
			out.WriteString(" " + inner + " ")
		case inner == "percent":
			out.WriteString("%")
		case before == "" && choice.MatchString(inner) && valued.MatchString(rest): // (B) 5
		case known(inner):
			out.WriteString(`\` + inner + raised)
		case !worded && before != "" && isUnit(command, inner) && measurable(before) && behind.MatchString(rest):
			out.WriteString(" ")
		default:
			out.WriteString(" " + inner + raised)
			if raised == "" && strings.HasSuffix(s[m[4]:m[5]], " ") { // \text{June }20
				out.WriteString(" ")
			}
			worded = true
		}
	}
	out.WriteString(s[at:])
	return out.String()
}

// measurable reports whether a text ends with a value.
func measurable(s string) bool {
	last, _ := utf8.DecodeLastRuneInString(s)
	return !strings.ContainsRune(`+-*/^=<>≤≥,(:∪∈±[{⦃_&|\`, last)
}

// isUnit tells a unit from a variable in upright or bold letters: i and e are none, m and s are.
func isUnit(command, inner string) bool {
	if len(inner) == 1 && (command == "mathbf" || !strings.Contains("mgshlLtNJWVACFKTH%°", inner)) {
		return false
	}
	return Unit(inner) && !halfDay.MatchString(inner)
}
