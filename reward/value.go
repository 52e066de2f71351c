package reward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/reward/output"
)

// SameValue reports whether a returned JSON value equals the expected one, as Python would compare the
// two after json.loads: numbers and booleans by value, integers exactly. Tuples equal lists at every
// depth, and integer keys of a dict are strings, as in JSON. A tolerance above zero lets numbers differ
// as output.Close does.
//
// A returned value that is no JSON equals nothing; if the expected one is none, that is an error.
func SameValue(got, want json.RawMessage, tolerance float64) (bool, error) {
	w, err := parseJSON(want)
	if err != nil {
		return false, fmt.Errorf("expected value: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(got))
	d.UseNumber()
	if !(values{tolerance}).same(d, w) {
		return false, nil
	}
	_, err = d.Token()
	return err == io.EOF, nil
}

// parseJSON keeps numbers as text. encoding/json bounds the depth.
func parseJSON(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text after the JSON value")
	}
	return v, nil
}

type values struct{ tolerance float64 }

// same compares while it reads, and stops at the first difference: a program may return a value that takes a gigabyte when parsed.
func (c values) same(d *json.Decoder, want any) bool {
	got, err := d.Token()
	if g, ok := asNumber(got); ok {
		w, ok := asNumber(want)
		return ok && c.sameNumber(g, w)
	}
	switch g := got.(type) {
	case json.Delim:
		if w, ok := want.([]any); ok && g == '[' {
			return c.sameList(d, w)
		}
		w, ok := want.(map[string]any)
		return ok && g == '{' && c.sameDict(d, w)
	case string:
		w, ok := want.(string)
		return ok && g == w
	}
	return err == nil && got == nil && want == nil
}

func (c values) sameList(d *json.Decoder, want []any) bool {
	for _, w := range want {
		if !d.More() || !c.same(d, w) {
			return false
		}
	}
	end, _ := d.Token()
	return end == json.Delim(']')
}

// sameDict compares objects. Of duplicate keys the last one counts, as in Python.
func (c values) sameDict(d *json.Decoder, want map[string]any) bool {
	right := map[string]bool{}
	for d.More() {
		key, _ := d.Token()
		name, isKey := key.(string)
		w, wanted := want[name]
		var value json.RawMessage
		if !isKey || !wanted || d.Decode(&value) != nil {
			return false
		}
		one := json.NewDecoder(bytes.NewReader(value))
		one.UseNumber()
		right[name] = c.same(one, w)
	}
	for _, ok := range right {
		if !ok {
			return false
		}
	}
	end, _ := d.Token()
	return end == json.Delim('}') && len(right) == len(want)
}

// number is an int, whose digits are kept, or a float.
type number struct {
	digits string // "" for a float
	float  float64
}

func asNumber(v any) (number, bool) {
	switch v := v.(type) {
	case bool:
		return number{digits: map[bool]string{false: "0", true: "1"}[v]}, true
	case json.Number:
		return parseNumber(v.String()), true
	}
	return number{}, false
}

func parseNumber(text string) number {
	switch {
	case text == "-0":
		return number{digits: "0"}
	case !strings.ContainsAny(text, ".eE"):
		return number{digits: text}
	}
	f, _ := strconv.ParseFloat(text, 64) // infinite if out of range, as in Python
	return number{float: f}
}

func (c values) sameNumber(got, want number) bool {
	return sameNumber(got, want) || c.tolerance > 0 && output.Within(got.nearest(), want.nearest(), c.tolerance)
}

func sameNumber(a, b number) bool {
	switch {
	case a.digits != "" && b.digits != "":
		return a.digits == b.digits
	case a.digits != "":
		return b.integer() == a.digits
	case b.digits != "":
		return a.integer() == b.digits
	}
	return a.float == b.float
}

// integer is the exact value of a float without a fraction, and "" for every other.
func (n number) integer() string {
	if n.float != math.Trunc(n.float) || math.IsInf(n.float, 0) {
		return ""
	}
	i, _ := big.NewFloat(n.float).Int(nil)
	return i.String()
}

func (n number) nearest() float64 {
	if n.digits != "" {
		f, _ := strconv.ParseFloat(n.digits, 64)
		return f
	}
	return n.float
}
