package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

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
