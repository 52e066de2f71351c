// Package output prints the output of verbs: tables for people, JSON Lines for programs.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table prints rows in aligned columns.
type Table struct{ *tabwriter.Writer }

// NewTable starts a table with a header.
func NewTable(w io.Writer, header ...string) Table {
	t := Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.Row(header...)
	return t
}

// Row adds a row.
func (t Table) Row(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }

// JSONLines writes JSON Lines without HTML escapes, as the texts are programs.
type JSONLines struct{ enc *json.Encoder }

// NewJSONLines writes to w.
func NewJSONLines(w io.Writer) JSONLines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return JSONLines{enc}
}

// Write writes a value.
func (l JSONLines) Write(v any) error {
	if err := l.enc.Encode(v); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
