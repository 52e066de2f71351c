package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// pythonJSON formats a JSON value as Python's json.dumps(v, ensure_ascii=False) does, because models were
// trained on tools and arguments in this format: separators ", " and ": ", keys in their order.
func pythonJSON(raw json.RawMessage) (string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out strings.Builder
	if err := copyValue(&out, d); err != nil {
		return "", fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return "", fmt.Errorf("not JSON: text after the value")
	}
	return out.String(), nil
}

func copyValue(out *strings.Builder, d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch v := t.(type) {
	case json.Delim:
		return copyParts(out, d, v)
	case string:
		writeString(out, v)
	case json.Number:
		out.WriteString(pythonNumber(v.String()))
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case nil:
		out.WriteString("null")
	}
	return nil
}

// copyParts copies an object or a list after its opening bracket.
func copyParts(out *strings.Builder, d *json.Decoder, open json.Delim) error {
	out.WriteString(open.String())
	for n := 0; d.More(); n++ {
		if n > 0 {
			out.WriteString(", ")
		}
		if open == '{' {
			if err := copyValue(out, d); err != nil {
				return err
			}
			out.WriteString(": ")
		}
		if err := copyValue(out, d); err != nil {
			return err
		}
	}
	end, err := d.Token()
	if err != nil {
		return err
	}
	out.WriteString(end.(json.Delim).String())
	return nil
}

func writeString(out *strings.Builder, s string) {
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r >= 0x20:
			out.WriteRune(r)
		default:
			if i := strings.IndexRune("\b\f\n\r\t", r); i >= 0 {
				out.WriteByte('\\')
				out.WriteByte("bfnrt"[i])
			} else {
				fmt.Fprintf(out, `\u%04x`, r)
			}
		}
	}
	out.WriteByte('"')
}

// pythonNumber formats a number as Python does after parsing it: 1e2 is 100.0.
func pythonNumber(s string) string {
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			return "0"
		}
		return s
	}
	f, _ := strconv.ParseFloat(s, 64)
	switch size := math.Abs(f); {
	case f > math.MaxFloat64:
		return "Infinity"
	case f < -math.MaxFloat64:
		return "-Infinity"
	case size != 0 && (size < 1e-4 || size >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
