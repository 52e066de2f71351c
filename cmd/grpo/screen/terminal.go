package screen

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/seed-7879b91d/grpo/internal/look"
)

// usual is the width of what does not say how wide it is: a pipe, a file, and some terminals.
const usual = 80

// Width is how many characters fit in a line of w, and whether that is a terminal. It is asked for each time that
// something is drawn, since a window may be made smaller at any time.
func Width(w io.Writer) (columns int, terminal bool) {
	columns, _, terminal = Size(w)
	return columns, terminal
}

// Size is Width with the number of lines; 0 where there is no end to them.
func Size(w io.Writer) (columns, rows int, terminal bool) {
	if over, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = over.Unwrap()
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usual, 0, false
	}
	if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
		return columns, rows, true
	}
	return usual, 0, true
}

// draws is how many characters fit in a line of w, and whether a line can be drawn over and over there, which a dumb terminal, as that of
// an editor, does not know how to.
func draws(w io.Writer) (columns int, can bool) {
	columns, terminal := Width(w)
	return columns, terminal && os.Getenv("TERM") != "dumb"
}

// Shown is how a text goes to w that others wrote: on a terminal, which might obey it, with signs for what cannot be seen.
func Shown(w io.Writer) func(text string) string {
	if _, terminal := Width(w); terminal {
		return look.Visible
	}
	return func(text string) string { return text }
}

// Tell prints a line: on a terminal in as many as it takes, with whole words. What it quotes may be of a server, a model or a data set,
// so it has signs for what cannot be seen, also where it is kept in a file that a terminal shows later.
func Tell(w io.Writer, line string) {
	line = look.Visible(line)
	if columns, terminal := Width(w); terminal {
		line = wrap(line, columns)
	}
	fmt.Fprintln(w, line)
}

// flow puts parts into lines of so many characters; a part stays whole. Lines after the first are indented.
func flow(parts []string, columns int) string { return join(parts, columns, "  ") }

// wrap puts the words of a text into such lines.
func wrap(text string, columns int) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	var words []string
	for i, w := range strings.Split(text[len(indent):], " ") {
		if i > 0 && unit.MatchString(w) && endsInDigit(words[len(words)-1]) {
			words[len(words)-1] += " " + w
		} else {
			words = append(words, w)
		}
	}
	return indent + join(words, columns-len(indent), " ")
}

// unit is what stays beside its number, such as MB, s or %.
var unit = regexp.MustCompile(`^([kMGT]i?B|s|min|h|d|M|%)[,;:.)]*$`)

func endsInDigit(word string) bool {
	return word != "" && word[len(word)-1] >= '0' && word[len(word)-1] <= '9'
}

// join is parts with something in between, or a new line.
func join(parts []string, columns int, between string) string {
	const indent = "\n    "
	var b strings.Builder
	at := 0
	for i, p := range parts {
		n := utf8.RuneCountInString(p)
		switch {
		case i == 0:
		case at+len(between)+n <= columns:
			b.WriteString(between)
			at += len(between)
		default:
			b.WriteString(indent)
			at = len(indent) - 1
		}
		b.WriteString(p)
		at += n
	}
	return b.String()
}

// fitting is the start of a text that fits into so many characters. It ends at the end of a word: half a number would be
// another one.
func fitting(text string, columns int) string {
	runes := []rune(text)
	if len(runes) <= columns {
		return text
	}
	for at := max(columns, 0); at > 0; at-- {
		if runes[at] == ' ' {
			return strings.TrimRight(string(runes[:at]), " ")
		}
	}
	return ""
}

// oneLine keeps what a bar draws over and over on one line, however narrow the window has become.
type oneLine struct{ io.Writer }

func (o oneLine) Write(p []byte) (int, error) {
	columns, _ := Width(o.Writer)
	text := string(p)
	start := len(text) - len(strings.TrimLeft(text, "\r"))
	if _, err := io.WriteString(o.Writer, text[:start]+fitting(text[start:], columns-1)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// newBar is a bar of so many units in a line that has so many characters beside it.
func newBar(w io.Writer, units int64, beside int, options ...progressbar.Option) *progressbar.ProgressBar {
	columns, _ := Width(w)
	return progressbar.NewOptions64(units, append([]progressbar.Option{
		progressbar.OptionSetWriter(oneLine{w}), progressbar.OptionSetWidth(min(30, max(5, columns-beside))),
		progressbar.OptionUseANSICodes(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100 * time.Millisecond),
	}, options...)...)
}

// span is a time in one or two units, as a person says it.
func span(seconds float64) string {
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	whole := int64(seconds)
	switch {
	case seconds < 90:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 90*minute:
		return fmt.Sprintf("%.0f min", seconds/minute)
	case seconds < 36*hour:
		return fmt.Sprintf("%d h %d min", whole/hour, whole%hour/minute)
	}
	return fmt.Sprintf("%d d %d h", whole/day, whole%day/hour)
}
