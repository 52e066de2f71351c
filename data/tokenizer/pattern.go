package tokenizer

import (
	"errors"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// patternTrial is the time limit of a pattern for each trial text; the patterns of real models take a thousandth of it. Only a pattern that
// exceeds the limit patternTries times in a row is refused, since the machine may be busy.
const (
	patternTrial = 200 * time.Millisecond
	patternTries = 5
)

// tryPattern refuses a regular expression with catastrophic backtracking, such as (a+)+b, which tries all ways to divide
// a run of a's. It tries the pattern on runs of each character in it, and of one character of each class, alone and
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
		repeated := strings.Repeat(string(r), 200)
		for _, text := range []string{repeated, repeated + "\x00", repeated + "a", repeated + " "} {
			if !endsInTime(re, text) {
				return errors.New("a pattern with catastrophic backtracking")
			}
		}
	}
	return nil
}

// endsInTime reports whether at least one of several tries finds all matches in a text within the time limit.
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
