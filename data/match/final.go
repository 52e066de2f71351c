package match

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/seed-7879b91d/grpo/data/match/mathvalue"
)

// Said is a text without its thoughts and the space around it. If thoughts never end, it is the text before them.
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

// answerIntro matches the words before an answer: "answer is", "answer:", or "answer" at the end of a line. It skips the line that opens
// a display formula (\[ or $$), which is not the answer itself.
var answerIntro = regexp.MustCompile(`(?i)\banswer\s*(?:\*\*)?\s*(?:is\b|[:=]|\n)\s*(?:\*\*)?\s*[:=]?\s*(?:\*\*)?\s*` +
	`(?:(?:\\\[|\$\$)[ \t\r]*\n\s*)?`)

// Final is the final answer of a text: the last \boxed{}, or the rest of the line after the last ####, or after the last "answer is" or
// "answer:".
func Final(text string) (string, bool) {
	if boxed, ok := lastBoxed(text); ok {
		return boxed, true
	}
	if _, behind, ok := cutLast(text, "####"); ok {
		line, _, _ := strings.Cut(behind, "\n")
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "**") {
			line = withoutEmphasis(line)
		}
		if line != "" {
			return line, true
		}
	}
	all := answerIntro.FindAllStringIndex(text, -1)
	for i := len(all) - 1; i >= 0; i-- { // the last that is followed by something
		line, _, _ := strings.Cut(text[all[i][1]:], "\n")
		if line = withoutEmphasis(line); line != "" {
			return line, true
		}
	}
	return "", false
}

// withoutEmphasis strips the asterisks of emphasis from a line, and its full stop.
func withoutEmphasis(line string) string {
	line = strings.TrimRightFunc(line, func(r rune) bool { return r == '*' || r == '.' || unicode.IsSpace(r) })
	return strings.TrimLeftFunc(line, func(r rune) bool { return r == '*' || unicode.IsSpace(r) })
}

// lastBoxed is the content of the \boxed{…} or \fbox{…} that closes last.
func lastBoxed(text string) (inside string, found bool) {
	var open []int // for each open brace, where its content starts; -1 unless it is that of a box
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i+1 < len(text) && strings.IndexByte("{}\\", text[i+1]) >= 0 {
				i++ // an escaped brace opens and closes nothing
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

// aNumber matches mixed numbers too, 3 1/2 or 3½. A hyphen after a digit or letter is not a minus: 3-5 hours.
var aNumber = regexp.MustCompile(`(?:\B[-−–‑])?\$?(?:(?:\d{1,3} )?\d+/\d+|\d*[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒]|` +
	`(?:\d{1,3}(?:,\d{3})+|\d+|\B\.\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?:/\d+)?)%?`)

// lastNumber is the last number in a text; it is taken for the answer if none is announced.
func lastNumber(text string) (string, bool) {
	all := aNumber.FindAllString(text, -1)
	if all == nil {
		return "", false
	}
	return all[len(all)-1], true
}

var nextSentence = regexp.MustCompile(`(?:\.\s+I hope|([^\pL\s.])\.\s+\p{Lu}).*$`)

// firstSentence drops the sentences after a value: "42. I hope it is correct."
func firstSentence(s string) string {
	if first := nextSentence.ReplaceAllString(s, "$1"); first != s {
		return withoutEmphasis(first)
	}
	return s
}

const figures = `[-−]?[€£]?(?:\d[\d,]*(?:\.\d+)?(?:/\d+)?|\.\d+)`

var (
	bareNumber = regexp.MustCompile(`^(?:` + figures + `|-?\\[dt]?frac\{-?\d+\}\{\d+\})$`)
	inText     = regexp.MustCompile(`^\\text\{([^{}]*)\}$`)
	emphasis   = strings.NewReplacer(`\ `, " ", "~", " ", `\$`, "", "$", "", "**", "")
	// measured matches a number followed by a common unit, or by a plural noun that says what is counted.
	measured = regexp.MustCompile(`^(` + figures + `)` +
		`(?:\s*(?:(?:square|cubic|sq\.?)\s+)?(?:[kcm]m|ft|yd|kg|mg|oz|lbs?|m[lL]|km/h|mph|min|hrs?)(?:\^?[23²³])?|` +
		`\s+(?:(\pL+)\s+)?(people|children|men|women|feet|foot|inch|meter|mile|dollar|euro|pound|hour|minute|second|day|` +
		`week|month|year|kilogram|gram|liter|gallon|[\pL-]+s)(?:\s+per\s+\pL+)?)\.?$`)
)

// withoutUnit drops the unit after the number of an answer, if the expected answer is a bare number. Other words stay: 18 thousand is not
// 18, and neither is 18 dollars less.
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

// noNoun matches words that end in s without being a plural: less, minus, this.
var noNoun = regexp.MustCompile(`(?i)(?:^(?:is|as|was|has|his|its|this|thus|plus|minus|always|perhaps|percents|negatives)|ss)$`)

// document is the last fenced block of a text, or the whole text if it has none.
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
