package main

import (
	"encoding/json"
	"io"
)

// checkedOutput remembers a write error, so that a verb whose output could not be written fails.
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

// Unwrap returns the underlying writer, which may be a terminal.
func (c *checkedOutput) Unwrap() io.Writer { return c.Writer }

// printJSON writes a line of JSON.
func printJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }
