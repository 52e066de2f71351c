package compare

import (
	"strings"
	"unicode/utf8"
)

// mostName is how wide a run's name may be.
const mostName = 28

// grid is a table with columns of minimal width. The first has names and is aligned left, the others right.
type grid struct {
	head []string
	rows [][]string
}

func (g *grid) add(row []string) { g.rows = append(g.rows, row) }

// print prints the grid. If a line would be too long, the name is shortened.
func (g *grid) print(b *strings.Builder) {
	widths, total := make([]int, len(g.head)), 0
	for _, row := range append([][]string{g.head}, g.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	widths[0] = min(widths[0], mostName)
	for _, w := range widths {
		total += w + 2
	}
	if over := total - 2 - columns; over > 0 {
		widths[0] = max(8, widths[0]-over)
	}
	for _, row := range append([][]string{g.head}, g.rows...) {
		var line strings.Builder
		for i, cell := range row {
			if i == 0 {
				cell = cut(cell, widths[0])
				line.WriteString(cell + strings.Repeat(" ", widths[0]-utf8.RuneCountInString(cell)))
				continue
			}
			line.WriteString(strings.Repeat(" ", 2+widths[i]-utf8.RuneCountInString(cell)) + cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// cut shortens a text in the middle, as both ends may distinguish it.
func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	head := (most - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(most-1-head):])
}

// wrap wraps a text, with a hanging indent of the width of lead.
func wrap(lead, text string) string {
	var b strings.Builder
	indent := strings.Repeat(" ", max(2, utf8.RuneCountInString(lead)))
	line := lead
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	b.WriteString(line + "\n")
	return b.String()
}
