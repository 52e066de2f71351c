package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// cell is a value of a row under the name of its column, as JSON.
type cell struct {
	name string
	json json.RawMessage
}

// flatten gives the members of an object in their order, those of objects inside under names with dots. Lists are
// numbered in the same way, or stay one cell.
func flatten(object []byte, numbered bool) (row []cell, err error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the brace
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		cells, err := flattenValue(fmt.Sprint(key), value, numbered)
		if err != nil {
			return nil, err
		}
		row = append(row, cells...)
	}
	return row, nil
}

func flattenValue(name string, value json.RawMessage, numbered bool) (row []cell, err error) {
	switch {
	case value[0] == '{':
		row, err = flatten(value, numbered)
	case value[0] == '[' && numbered:
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		for i, v := range list {
			cells, err := flattenValue(strconv.Itoa(i), v, numbered)
			if err != nil {
				return nil, err
			}
			row = append(row, cells...)
		}
	default:
		return []cell{{name, value}}, nil
	}
	for i := range row {
		row[i].name = name + "." + row[i].name
	}
	return row, err
}

// columns are the names of all cells of some rows. One that a later row brings has its place behind the one that it
// follows there, so what belongs together stays together.
type columns struct {
	names []string
	known map[string]bool
}

func (c *columns) add(row []cell) {
	if c.known == nil {
		c.known = map[string]bool{}
	}
	at := 0
	for _, cell := range row {
		if !c.known[cell.name] {
			c.known[cell.name] = true
			c.names = slices.Insert(c.names, at, cell.name)
		} else if at < len(c.names) && c.names[at] == cell.name {
			at++
			continue
		} else {
			at = slices.Index(c.names, cell.name)
		}
		at++
	}
}

// A writer writes rows.
type writer interface {
	begin(columns []string)
	row(row []cell) error
}

// csvRows writes RFC 4180: lines end with CR LF, texts are as they are.
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

func (w *csvRows) row(row []cell) error {
	texts := make([]string, len(w.at))
	for _, c := range row {
		text, err := plain(c.json)
		if err != nil {
			return err
		}
		texts[w.at[c.name]] = text
	}
	w.line(texts)
	return nil
}

// plain is what a cell of a spreadsheet shows: a text without its quotes, nothing for null.
func plain(value json.RawMessage) (text string, err error) {
	switch value[0] {
	case '"':
		err = json.Unmarshal(value, &text)
		return text, err
	case 'n':
		return "", nil
	}
	return string(value), nil
}

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

// jsonRows writes an object a line.
type jsonRows struct{ *bufio.Writer }

func (jsonRows) begin([]string) {}

func (w jsonRows) row(row []cell) error {
	for i, c := range row {
		name, err := jsonl.Marshal(c.name)
		if err != nil {
			return err
		}
		w.WriteByte("{,"[min(i, 1)])
		w.Write(name)
		w.WriteByte(':')
		w.Write(c.json)
	}
	_, err := io.WriteString(w, "}\n")
	return err
}
