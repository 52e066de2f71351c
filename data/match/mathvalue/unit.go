package mathvalue

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// notUnits are the words that are not units: they change the number before them (thousand, half) or begin another phrase (less, than).
var notUnits = set(`hundred thousand million billion trillion k dozen score ten half halve third quarter fourth fifth sixth seventh eighth
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
		`(\s*\^\s*(?:-?\d|\{\s*-?\d+\s*\}))?`) // the exponent, as of square centimetres
	ofUnits   = regexp.MustCompile(`^(?:[\pL\pM\s./()'°%²³*-]|[A-Za-z]\^?\d)*$`)
	choice    = regexp.MustCompile(`^\([A-Z]\)$`)
	afterUnit = regexp.MustCompile(`^(?:$|or\b|and\b|[^\pL\d(_])`)
	valued    = regexp.MustCompile(`^\s*(?:[-\d.]|\\frac|\\sqrt)`)
)

// Unit reports whether the words after a number only name its unit: 18 hours is 18, while 18 thousand is not.
func Unit(words string) bool {
	all := strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return !unicode.IsLetter(r) })
	for _, w := range all {
		if notUnits[w] || notUnits[strings.TrimSuffix(w, "s")] {
			return false
		}
	}
	return len(all) <= 5 && ofUnits.MatchString(words)
}

// plain removes \text{…} and similar commands: units after a value are dropped, all other words stay.
func plain(s string) string {
	var out strings.Builder
	at, worded := 0, false // worded: the last output was words
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
		case !worded && before != "" && isUnit(command, inner) && measurable(before) && afterUnit.MatchString(rest):
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

// measurable reports whether a text ends with a value rather than with an operator.
func measurable(s string) bool {
	last, _ := utf8.DecodeLastRuneInString(s)
	return !strings.ContainsRune(`+-*/^=<>≤≥,(:∪∈±[{⦃_&|\`, last)
}

// isUnit tells units from variables in upright or bold type: m and s are units, i and e are not.
func isUnit(command, inner string) bool {
	if len(inner) == 1 && (command == "mathbf" || !strings.Contains("mgshlLtNJWVACFKTH%°", inner)) {
		return false
	}
	return Unit(inner) && !halfDay.MatchString(inner)
}
