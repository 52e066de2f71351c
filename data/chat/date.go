package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// layouts maps the verbs of strftime to layouts of package time.
var layouts = map[byte]string{
	'd': "02", 'b': "Jan", 'h': "Jan", 'B': "January", 'Y': "2006", 'm': "01", 'y': "06", 'a': "Mon", 'A': "Monday", 'e': "_2",
	'j': "002", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'F': "2006-01-02", 'D': "01/02/06", 'T': "15:04:05",
	'R': "15:04", 'x': "01/02/06", 'X': "15:04:05", 'c': "Mon Jan _2 15:04:05 2006", 'n': "\n", 't': "\t",
}

// unpadded maps the verbs with a hyphen, which drops the leading zero: %-d.
var unpadded = map[byte]string{'d': "2", 'm': "1", 'I': "3"}

// strftime returns a function that formats midnight of a day, which is written YYYY-MM-DD.
func strftime(day string) (func(format string) (string, error), error) {
	if day == "" {
		return func(string) (string, error) {
			return "", errors.New("it uses today's date, so prompts would change from day to day; set a date, such as chat_date=2024-07-26")
		}, nil
	}
	date, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return nil, badinput.Errorf("chat_date: found %q, expected a day such as 2024-07-26", day)
	}
	return func(format string) (string, error) {
		var out strings.Builder
		for i := 0; i < len(format); i++ {
			if format[i] != '%' || i+1 == len(format) {
				out.WriteByte(format[i])
				continue
			}
			i++
			table, verb := layouts, format[i]
			if verb == '-' && i+1 < len(format) {
				i++
				table, verb = unpadded, format[i]
			}
			layout, ok := table[verb]
			switch {
			case verb == '%':
				out.WriteByte('%')
			case ok:
				out.WriteString(date.Format(layout))
			default:
				return "", fmt.Errorf("the format %%%c is not supported", verb)
			}
		}
		return out.String(), nil
	}, nil
}
