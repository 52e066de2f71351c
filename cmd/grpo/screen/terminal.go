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

	"github.com/seed-7879b91d/grpo/internal/display"
)

// defaultWidth is the width if it is unknown, as of a pipe, a file, and some terminals.
const defaultWidth = 80

// Width is the width of w in characters, and whether it is a terminal. Ask each time, as windows can be resized.
func Width(w io.Writer) (columns int, terminal bool) {
	columns, _, terminal = Size(w)
	return columns, terminal
}

// Size is Width with the number of lines; 0 if unlimited.
func Size(w io.Writer) (columns, rows int, terminal bool) {
	if over, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = over.Unwrap()
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return defaultWidth, 0, false
	}
	if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
		return columns, rows, true
	}
	return defaultWidth, 0, true
}

// Redraws reports whether lines can be redrawn on w: a pipe, a file and a dumb terminal, such as in an editor, cannot.
func Redraws(w io.Writer) bool {
	_, terminal := Width(w)
	return terminal && os.Getenv("TERM") != "dumb"
}

// drawingWidth is the width of w, and whether lines can be redrawn there.
func drawingWidth(w io.Writer) (columns int, can bool) {
	columns, _ = Width(w)
	return columns, Redraws(w)
}

// Sanitizer returns a function that makes untrusted text safe for w: on a terminal, control characters become visible symbols.
func Sanitizer(w io.Writer) func(text string) string {
	if _, terminal := Width(w); terminal {
		return display.Visible
	}
	return func(text string) string { return text }
}

// PrintLine prints a line, wrapped at words on a terminal. It may quote untrusted text, so control characters become visible symbols, even
// in a file, which may be shown on a terminal later.
func PrintLine(w io.Writer, line string) {
	line = display.Visible(line)
	if columns, terminal := Width(w); terminal {
		line = wrap(line, columns)
	}
	fmt.Fprintln(w, line)
}

// wrapParts joins parts to lines of that width, breaking only between parts. Lines after the first are indented.
func wrapParts(parts []string, columns int) string { return join(parts, columns, "  ") }

// wrap wraps a text in the same way.
func wrap(text string, columns int) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	var words []string
	for i, w := range strings.Split(text[len(indent):], " ") {
		if i > 0 && unitPattern.MatchString(w) && endsInDigit(words[len(words)-1]) {
			words[len(words)-1] += " " + w
		} else {
			words = append(words, w)
		}
	}
	return indent + join(words, columns-len(indent), " ")
}

// unitPattern matches units that must stay with their number, such as MB, s or %.
var unitPattern = regexp.MustCompile(`^([kMGT]i?B|s|min|h|d|M|%)[,;:.)]*$`)

func endsInDigit(word string) bool {
	return word != "" && word[len(word)-1] >= '0' && word[len(word)-1] <= '9'
}

// join joins parts with between, or a line break.
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

// cutAtWord is the beginning of a text that fits, ending at a word: part of a number would be another number.
func cutAtWord(text string, columns int) string {
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

// oneLineWriter keeps a bar on one line, however narrow the window becomes.
type oneLineWriter struct{ io.Writer }

func (o oneLineWriter) Write(p []byte) (int, error) {
	columns, _ := Width(o.Writer)
	text := string(p)
	start := len(text) - len(strings.TrimLeft(text, "\r"))
	if _, err := io.WriteString(o.Writer, text[:start]+cutAtWord(text[start:], columns-1)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// newBar is a bar with that many units, in a line with beside other characters.
func newBar(w io.Writer, units int64, beside int, options ...progressbar.Option) *progressbar.ProgressBar {
	columns, _ := Width(w)
	return progressbar.NewOptions64(units, append([]progressbar.Option{
		progressbar.OptionSetWriter(oneLineWriter{w}), progressbar.OptionSetWidth(min(30, max(5, columns-beside))),
		progressbar.OptionUseANSICodes(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100 * time.Millisecond),
	}, options...)...)
}

// formatDuration formats a duration with one or two units.
func formatDuration(seconds float64) string {
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
