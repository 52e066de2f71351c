package match

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/seed-7879b91d/grpo/data/match/mathvalue"
)

// Said is a text without its thoughts and the space around it. If thoughts never end, it is what comes before them.
func Said(text string) string {
	if _, behind, ok := cutLast(text, "</think>"); ok {
		text = behind
	} else if before, _, ok := strings.Cut(text, "<think>"); ok {
		text = before
	}
	return strings.TrimSpace(text)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// announced says that an answer comes: "answer is", "answer:", or a line that ends with the word. A formula set apart begins with a
// line of its own, which is no answer yet.
var announced = regexp.MustCompile(`(?i)\banswer\s*(?:\*\*)?\s*(?:is\b|[:=]|\n)\s*(?:\*\*)?\s*[:=]?\s*(?:\*\*)?\s*` +
	`(?:(?:\\\[|\$\$)[ \t\r]*\n\s*)?`)

// Final is the final answer of a text: in the last \boxed{}, after the last ####, or after the last "answer is" or "answer:" up to the
// end of its line.
func Final(text string) (string, bool) {
	if boxed, ok := lastBoxed(text); ok {
		return boxed, true
	}
	if _, behind, ok := cutLast(text, "####"); ok {
		line, _, _ := strings.Cut(behind, "\n")
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "**") {
			line = plainly(line)
		}
		if line != "" {
			return line, true
		}
	}
	all := announced.FindAllStringIndex(text, -1)
	for i := len(all) - 1; i >= 0; i-- { // the last with something behind it
		line, _, _ := strings.Cut(text[all[i][1]:], "\n")
		if line = plainly(line); line != "" {
			return line, true
		}
	}
	return "", false
}

// plainly is a line without its emphasis and its full stop, whichever of them ends it.
func plainly(line string) string {
	line = strings.TrimRightFunc(line, func(r rune) bool { return r == '*' || r == '.' || unicode.IsSpace(r) })
	return strings.TrimLeftFunc(line, func(r rune) bool { return r == '*' || unicode.IsSpace(r) })
}

// lastBoxed is what stands in the \boxed{…} or \fbox{…} that is closed last.
func lastBoxed(text string) (inside string, found bool) {
	var open []int // where the braces that are open began, negative where they are no box's
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i+1 < len(text) && strings.IndexByte("{}\\", text[i+1]) >= 0 {
				i++ // an escaped brace is none
			}
		case '{':
			at := i + 1
			if before := strings.TrimRight(text[:i], " "); !strings.HasSuffix(before, `\boxed`) && !strings.HasSuffix(before, `\fbox`) {
				at = -1
			}
			open = append(open, at)
		case '}':
			if len(open) == 0 {
				continue
			}
			if at := open[len(open)-1]; at >= 0 {
				inside, found = strings.TrimSpace(text[at:i]), true
			}
			open = open[:len(open)-1]
		}
	}
	return inside, found
}

// aNumber may be mixed, 3 1/2 or 3½; a stroke behind a figure or a letter is no minus, as in 3-5 hours.
var aNumber = regexp.MustCompile(`(?:\B[-−–‑])?\$?(?:(?:\d{1,3} )?\d+/\d+|\d*[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒]|` +
	`(?:\d{1,3}(?:,\d{3})+|\d+|\B\.\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?:/\d+)?)%?`)

// lastNumber is the last number of a text that announces no answer.
func lastNumber(text string) (string, bool) {
	all := aNumber.FindAllString(text, -1)
	if all == nil {
		return "", false
	}
	return all[len(all)-1], true
}

var nextSentence = regexp.MustCompile(`(?:\.\s+I hope|([^\pL\s.])\.\s+\p{Lu}).*$`)

// firstSentence is a value without the sentences behind it: "42. I hope it is correct."
func firstSentence(s string) string {
	if first := nextSentence.ReplaceAllString(s, "$1"); first != s {
		return plainly(first)
	}
	return s
}

const figures = `[-−]?[€£]?(?:\d[\d,]*(?:\.\d+)?(?:/\d+)?|\.\d+)`

var (
	bareNumber = regexp.MustCompile(`^(?:` + figures + `|-?\\[dt]?frac\{-?\d+\}\{\d+\})$`)
	inText     = regexp.MustCompile(`^\\text\{([^{}]*)\}$`)
	emphasis   = strings.NewReplacer(`\ `, " ", "~", " ", `\$`, "", "$", "", "**", "")
	// measured is a number with a unit behind it: a usual one, or what is counted, in the plural.
	measured = regexp.MustCompile(`^(` + figures + `)` +
		`(?:\s*(?:(?:square|cubic|sq\.?)\s+)?(?:[kcm]m|ft|yd|kg|mg|oz|lbs?|m[lL]|km/h|mph|min|hrs?)(?:\^?[23²³])?|` +
		`\s+(?:(\pL+)\s+)?(people|children|men|women|feet|foot|inch|meter|mile|dollar|euro|pound|hour|minute|second|day|` +
		`week|month|year|kilogram|gram|liter|gallon|[\pL-]+s)(?:\s+per\s+\pL+)?)\.?$`)
)

// withoutUnit is an answer without the unit that is written out behind its number, where a number alone is wanted. Other words stay: 18
// thousand is not 18, and what 18 dollars less is nobody knows.
func withoutUnit(got, want string) string {
	if !bareNumber.MatchString(emphasis.Replace(strings.TrimSpace(want))) {
		return got
	}
	got = inText.ReplaceAllString(got, "$1")
	m := measured.FindStringSubmatch(strings.TrimSpace(emphasis.Replace(got)))
	if m == nil || !mathvalue.Unit(m[2]+" "+m[3]) || noNoun.MatchString(m[3]) {
		return got
	}
	return m[1]
}

// noNoun are words that end like a plural, and are none: less, minus, this.
var noNoun = regexp.MustCompile(`(?i)(?:^(?:is|as|was|has|his|its|this|thus|plus|minus|always|perhaps|percents|negatives)|ss)$`)

// document is the last fenced block of a text, or all of it.
func document(text string) string {
	before, _, ok := cutLast(text, "```")
	if !ok {
		return text
	}
	_, block, ok := cutLast(before, "```")
	if !ok {
		return text
	}
	info, body, ok := strings.Cut(block, "\n")
	if !ok || strings.ContainsAny(info, "{[\"") {
		body = block
	}
	return strings.TrimSpace(body)
}
