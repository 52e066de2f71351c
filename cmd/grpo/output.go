package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// checkedOutput remembers that something could not be written. What a verb prints is its work: it fails then, however
// it prints.
type checkedOutput struct {
	io.Writer
	err error // the first
}

func (c *checkedOutput) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// Unwrap is what it writes to, which may be a terminal.
func (c *checkedOutput) Unwrap() io.Writer { return c.Writer }

// table prints rows in columns, as they come.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer, header ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t table) row(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }

// printJSON writes one line for programs.
func printJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// jsonLines writes a line of JSON for each value, with <, > and & as they are: the texts are programs.
type jsonLines struct{ enc *json.Encoder }

func newJSONLines(w io.Writer) jsonLines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return jsonLines{enc}
}

func (l jsonLines) write(v any) error {
	if err := l.enc.Encode(v); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
