package main

import (
	"encoding/json"
	"io"
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

// printJSON writes one line for programs.
func printJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }
