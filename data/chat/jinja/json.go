package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// FromJSON parses a JSON value. Its strings are data, and keys keep their order.
func FromJSON(raw []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := fromJSON(d)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("not JSON: text after the value")
	}
	return v, nil
}

// bigNumber is an integer of more than 64 bits. It can be printed but not calculated with.
type bigNumber string

func fromJSON(d *json.Decoder) (Value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := t.(type) {
	case string:
		return Words(v), nil
	case bool:
		return v, nil
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n, nil
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return bigNumber(v), nil
		}
		f, _ := strconv.ParseFloat(v.String(), 64) // infinite if out of range, as in Python
		return f, nil
	case json.Delim:
		if v == '[' {
			return listFromJSON(d)
		}
		return dictFromJSON(d)
	}
	return nil, nil
}

func listFromJSON(d *json.Decoder) (Value, error) {
	l := &List{}
	for d.More() {
		v, err := fromJSON(d)
		if err != nil {
			return nil, err
		}
		l.Items = append(l.Items, v)
	}
	_, err := d.Token()
	return l, err
}

func dictFromJSON(d *json.Decoder) (Value, error) {
	out := NewDict()
	for d.More() {
		key, err := fromJSON(d)
		if err != nil {
			return nil, err
		}
		v, err := fromJSON(d)
		if err != nil {
			return nil, err
		}
		out.Set(key, v)
	}
	_, err := d.Token()
	return out, err
}

// jsonWriter writes JSON as Python's json.dumps does.
type jsonWriter struct {
	in          *interpreter
	out         strings.Builder
	data        bool // the output contains data
	ascii, sort bool
	indent      *string // per level; nil: all on one line
	comma       string
	colon       string
}

// toJSON is the filter tojson, as transformers define it.
func toJSON(in *interpreter, v Value, a arguments) Value {
	a.only(in, "tojson", "ensure_ascii", "indent", "separators", "sort_keys")
	w := &jsonWriter{in: in, comma: ", ", colon: ": ", ascii: a.flag(0, "ensure_ascii"), sort: a.flag(3, "sort_keys")}
	switch indent, _ := a.get(1, "indent"); indent := indent.(type) {
	case nil:
	case Text:
		w.indent = &indent.S
	default:
		n := a.int(in, 1, "indent", 0)
		if n > 64 {
			in.fail("tojson: found indent %d, expected 64 at most", n)
		}
		s := strings.Repeat(" ", max(n, 0))
		w.indent = &s
	}
	if w.indent != nil {
		w.comma = ","
	}
	if s, _ := a.get(2, "separators"); s != nil {
		pair, ok := s.(*List)
		if !ok || len(pair.Items) != 2 {
			in.fail("tojson: separators: expected two texts")
		}
		w.comma, w.colon = in.show(pair.Items[0]).S, in.show(pair.Items[1]).S
	}
	w.value(v, 0)
	text := plain(w.out.String())
	if w.data {
		text = Words(text.S)
	}
	return in.made(text)
}

func (w *jsonWriter) value(v Value, level int) {
	w.in.enter()
	defer w.in.leave()
	switch v := v.(type) {
	case nil:
		w.out.WriteString("null")
	case bool:
		w.out.WriteString(strconv.FormatBool(v))
	case int:
		w.out.WriteString(strconv.Itoa(v))
	case bigNumber:
		w.out.WriteString(string(v))
	case float64:
		w.out.WriteString(jsonFloat(v))
	case Text:
		w.text(v)
	case *List:
		w.parts('[', ']', len(v.Items), level, func(i int) { w.value(v.Items[i], level+1) })
	case *Dict:
		order := make([]int, len(v.keys))
		for i := range order {
			order[i] = i
		}
		if w.sort {
			slices.SortStableFunc(order, func(a, b int) int { return w.in.compare(v.keys[a], v.keys[b], "tojson") })
		}
		w.parts('{', '}', len(v.keys), level, func(i int) {
			w.key(v.keys[order[i]])
			w.out.WriteString(w.colon)
			w.value(v.values[order[i]], level+1)
		})
	default:
		w.in.fail("tojson: %s cannot be written as JSON", describe(v))
	}
}

func jsonFloat(f float64) string {
	switch s := showFloat(f); s {
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	case "nan":
		return "NaN"
	default:
		return s
	}
}

// parts writes a list or an object.
func (w *jsonWriter) parts(open, end byte, n, level int, part func(i int)) {
	w.out.WriteByte(open)
	line := func(level int) {
		if w.indent != nil {
			w.in.repeats(level, 1+len(*w.indent)/bytesPerStep)
			w.out.WriteString("\n" + strings.Repeat(*w.indent, level))
		}
	}
	for i := range n {
		if i > 0 {
			w.in.room(len(w.comma))
			w.out.WriteString(w.comma)
		}
		line(level + 1)
		part(i)
	}
	if n > 0 {
		line(level)
	}
	w.out.WriteByte(end)
}

func (w *jsonWriter) key(k Value) {
	if t, ok := k.(Text); ok {
		w.text(t)
		return
	}
	w.out.WriteByte('"')
	w.value(k, 0)
	w.out.WriteByte('"')
}

func (w *jsonWriter) text(t Text) {
	w.in.room(len(t.S))
	w.data = w.data || len(t.Data) > 0
	w.out.WriteByte('"')
	for _, r := range t.S {
		switch {
		case r == '"' || r == '\\':
			w.out.WriteByte('\\')
			w.out.WriteRune(r)
		case r < 0x20:
			if i := strings.IndexRune("\b\f\n\r\t", r); i >= 0 {
				w.out.WriteByte('\\')
				w.out.WriteByte("bfnrt"[i])
			} else {
				fmt.Fprintf(&w.out, `\u%04x`, r)
			}
		case r > 0xffff && w.ascii:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(&w.out, `\u%04x\u%04x`, a, b)
		case r > 0x7e && w.ascii:
			fmt.Fprintf(&w.out, `\u%04x`, r)
		default:
			w.out.WriteRune(r)
		}
	}
	w.out.WriteByte('"')
}
