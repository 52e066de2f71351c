package mathvalue

import (
	"cmp"
	"regexp"
	"strings"
)

// clock is a time of day with its half, and halfDay the half.
var (
	clock   = regexp.MustCompile(`(?i)^0?(\d{1,2})(?::(\d\d))?\s*([ap])\.?\s?m\.?$`)
	halfDay = regexp.MustCompile(`(?i)^[ap]\.?\s?m\.?$`)
)

// clocks are two answers of which one is a time of day, and whether they are the same where both are; beside another answer its half of the
// day is a unit.
func clocks(a, b string) (x, y string, both, same bool) {
	s, t := clock.FindStringSubmatch(a), clock.FindStringSubmatch(b)
	if s != nil && t != nil {
		return a, b, true, s[1] == t[1] && cmp.Or(s[2], "00") == cmp.Or(t[2], "00") && strings.EqualFold(s[3], t[3])
	}
	if s != nil {
		a = strings.TrimRight(a, " .aApPmM")
	}
	if t != nil {
		b = strings.TrimRight(b, " .aApPmM")
	}
	return a, b, false, false
}
