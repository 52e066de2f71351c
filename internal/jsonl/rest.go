package jsonl

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// CheckEnd fails if anything follows the JSON value that ends at an offset, and says where. json.Decoder does not check this.
func CheckEnd(text []byte, end int64) error {
	rest := bytes.TrimLeft(text[end:], " \t\r\n")
	if len(rest) == 0 {
		return nil
	}
	short := bytes.TrimRight(rest, " \t\r\n")
	if len(short) > 20 {
		for short = short[:20]; !utf8.Valid(short) && len(short) > 16; {
			short = short[:len(short)-1]
		}
	}
	return fmt.Errorf("found %q at byte %d, after the JSON value; expected one value alone", short, len(text)-len(rest))
}
