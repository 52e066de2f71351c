package tokenizer

import (
	"errors"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// patternTrial is how long a pattern may take over each of the trial texts; those in use take a thousandth of it. A pattern is late
// when it is so patternTries times in a row: the machine may have been busy with others.
const (
	patternTrial = 200 * time.Millisecond
	patternTries = 5
)

// tryPattern refuses a regular expression that takes for ever over some texts: (a+)+b tries all ways to part a row of
// a's. The trial texts are rows of each character that the pattern names, of one of each kind, and of the row with
// another end.
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
				return errors.New("a pattern that takes for ever over some texts")
			}
		}
	}
	return nil
}

// endsInTime tells whether all matches in a text are found within one of the tries.
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
