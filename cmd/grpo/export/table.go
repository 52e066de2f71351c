package export

import (
	"bufio"
	"io"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/rows"
)

// A writer writes rows.
type writer interface {
	begin(columns []string)
	row(row []rows.Cell) error
	end() error
}

// csvRows writes RFC 4180: lines end with CR LF.
type csvRows struct {
	*bufio.Writer
	at map[string]int
}

func (w *csvRows) begin(columns []string) {
	w.at = map[string]int{}
	for i, name := range columns {
		w.at[name] = i
	}
	w.line(columns)
}

func (w *csvRows) row(row []rows.Cell) error {
	texts := make([]string, len(w.at))
	for _, c := range row {
		texts[w.at[c.Name]] = c.Text()
	}
	w.line(texts)
	return nil
}

func (w *csvRows) end() error { return nil }

func (w *csvRows) line(texts []string) {
	for i, text := range texts {
		if i > 0 {
			w.WriteByte(',')
		}
		if strings.ContainsAny(text, ",\"\r\n") || text != strings.TrimSpace(text) {
			text = `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
		}
		w.WriteString(text)
	}
	w.WriteString("\r\n")
}

// jsonRows writes JSON Lines.
type jsonRows struct{ *bufio.Writer }

func (jsonRows) begin([]string) {}
func (jsonRows) end() error     { return nil }

func (w jsonRows) row(row []rows.Cell) error {
	for i, c := range row {
		name, err := jsonl.Marshal(c.Name)
		if err != nil {
			return err
		}
		w.WriteByte("{,"[min(i, 1)])
		w.Write(name)
		w.WriteByte(':')
		w.Write(c.JSON)
	}
	_, err := io.WriteString(w, "}\n")
	return err
}
