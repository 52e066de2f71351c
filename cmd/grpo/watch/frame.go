package watch

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/report"
)

// chartRows is the height of a chart in lines.
const chartRows = 4

// frame draws a run in lines of at most that many characters.
func frame(l report.ListedRun, columns int) []string {
	head := fmt.Sprintf("%s · %s · %s", display.Line(l.Name), strings.ToLower(string(l.State)), l.Progress())
	if held := l.HeldOut(); held != "" {
		head += " · held-out pass@1 " + held
	}
	lines := []string{fit(head, columns), fit(l.Sentence(), columns), ""}
	lines = append(lines, charts(l.Lines(), columns)...)
	if bar := phases(l.Phases(), columns); bar != "" {
		lines = append(lines, bar, "")
	}
	for i, a := range l.Advice() {
		if i == 2 {
			break
		}
		lines = append(lines, fit("! "+a, columns))
	}
	return append(lines, samples(l.Samples(), columns)...)
}

// charts draws the charts, two side by side if there is room.
func charts(curves []report.Line, columns int) (lines []string) {
	beside := 1
	if columns >= 60 {
		beside = 2
	}
	width := (columns - 3*(beside-1)) / beside
	for at := 0; at < len(curves); at += beside {
		var blocks [][]string
		for _, c := range curves[at:min(at+beside, len(curves))] {
			blocks = append(blocks, chart(c, width))
		}
		for i := range blocks[0] {
			var parts []string
			for _, b := range blocks {
				parts = append(parts, b[i])
			}
			lines = append(lines, strings.TrimRight(strings.Join(parts, "   "), " "))
		}
		lines = append(lines, "")
	}
	return lines
}

// chart draws a curve with its name, last value and scale.
func chart(c report.Line, width int) []string {
	low, high := valueRange(c.Values)
	if c.Share {
		low, high = 0, 1
	}
	scale := []string{formatShort(high), formatShort(low)}
	margin := max(len(scale[0]), len(scale[1]))
	lines := []string{pad(fit(c.Name+" "+c.Last, width), width)}
	for i, row := range braille(c.Values, low, high, max(width-margin-1, 1), chartRows) {
		mark := ""
		switch i {
		case 0:
			mark = scale[0]
		case chartRows - 1:
			mark = scale[1]
		}
		lines = append(lines, fmt.Sprintf("%*s %s", margin, mark, row))
	}
	return lines
}

func formatShort(v float64) string {
	if a := math.Abs(v); a >= 1e5 || a > 0 && a < 1e-3 {
		return fmt.Sprintf("%.0e", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// phases is how the time of the last step was spent, in shares.
func phases(all []report.Phase, columns int) string {
	total := 0.0
	for _, p := range all {
		total += p.Seconds
	}
	if total == 0 {
		return ""
	}
	var parts []string
	for _, p := range all {
		if share := p.Seconds / total; share >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", p.Name, 100*share))
		}
	}
	return fit(fmt.Sprintf("last step %.3g s: %s", total, strings.Join(parts, ", ")), columns)
}

// sampleLines is how many lines of a completion are shown.
const sampleLines = 6

func samples(all []report.RecordedCompletion, columns int) (lines []string) {
	for _, s := range all {
		lines = append(lines, fit(fmt.Sprintf("── %s: %s, reward %s ", s.Problem, s.Verdict, s.Reward), columns))
		n := 0
		for line := range strings.Lines(s.Text) {
			if n++; n > sampleLines {
				lines = append(lines, "  …")
				break
			}
			lines = append(lines, fit("  "+strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    "), columns))
		}
	}
	return lines
}

// fit truncates a line.
func fit(line string, columns int) string {
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	return string([]rune(line)[:max(columns-1, 0)]) + "…"
}

func pad(line string, columns int) string {
	return line + strings.Repeat(" ", max(columns-utf8.RuneCountInString(line), 0))
}
