package mathvalue

import (
	"cmp"
	"regexp"
	"strings"
)

// clock matches a time of day with am or pm, halfDay the am or pm alone.
var (
	clock   = regexp.MustCompile(`(?i)^0?(\d{1,2})(?::(\d\d))?\s*([ap])\.?\s?m\.?$`)
	halfDay = regexp.MustCompile(`(?i)^[ap]\.?\s?m\.?$`)
)

// compareTimes compares two answers if both are times of day with am or pm. If only one is, it returns that one without its am or pm,
// which is then a mere unit.
func compareTimes(a, b string) (x, y string, both, same bool) {
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
