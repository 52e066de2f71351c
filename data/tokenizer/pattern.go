package tokenizer

import (
	"errors"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// patternTrial is the time limit of a pattern for each trial text; the patterns of real models take a thousandth of it. A pattern is
// refused after it missed the limit patternTries times in a row, since the machine may have been busy.
const (
	patternTrial = 200 * time.Millisecond
	patternTries = 5
)

// tryPattern refuses a regular expression with catastrophic backtracking, such as (a+)+b, which tries all ways to divide
// a run of a's. The trial texts are runs of each character in the pattern and of one character of each kind, alone and
// with another character at the end.
func tryPattern(pattern string) error {
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return err
	}
	re.MatchTimeout = patternTrial
	tried := map[rune]bool{}
	for _, r := range pattern + "a1 \n!日\u0301" {
		if tried[r] || len(tried) == 64 {
			continue
		}
		tried[r] = true
		row := strings.Repeat(string(r), 200)
		for _, text := range []string{row, row + "\x00", row + "a", row + " "} {
			if !endsInTime(re, text) {
				return errors.New("a pattern with catastrophic backtracking")
			}
		}
	}
	return nil
}

// endsInTime reports whether one of the tries finds all matches in a text within the limit.
func endsInTime(re *regexp2.Regexp, text string) bool {
	for range patternTries {
		m, err := re.FindStringMatch(text)
		for m != nil && err == nil {
			m, err = re.FindNextMatch(m)
		}
		if err == nil {
			return true
		}
	}
	return false
}
