package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Value is a value of a template: nil (none), bool, int, float64, Text, *List, *Dict, Undefined, or
// something that can be called.
type Value any

// Undefined is the value of a missing variable, attribute or item; what describes it in messages.
type Undefined struct{ what string }

// List is a list or a tuple.
type List struct {
	Items []Value
	tuple bool
	group bool // a result of groupby: its items are grouper and list
}

// Dict is a mapping that keeps the order of its keys.
type Dict struct {
	keys      []Value
	values    []Value
	index     map[string]int
	namespace bool // its fields can be set
}

// NewDict makes an empty mapping.
func NewDict() *Dict { return &Dict{index: map[string]int{}} }

// Set adds a key or replaces its value.
func (d *Dict) Set(key, value Value) {
	name := keyOf(key)
	if i, ok := d.index[name]; ok {
		d.values[i] = value
		return
	}
	d.index[name] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
}

// Get looks up a key.
func (d *Dict) Get(key Value) (Value, bool) {
	i, ok := d.index[keyOf(key)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// keyOf makes a map key for which keys are equal as in Python, where 1, 1.0 and True are the same key.
func keyOf(v Value) string {
	switch v := v.(type) {
	case Text:
		return "s" + v.S
	case nil:
		return "n"
	}
	if f, ok := number(v); ok {
		return "f" + strconv.FormatFloat(f, 'g', -1, 64)
	}
	return "?"
}

// number converts an int, a float or a bool.
func number(v Value) (float64, bool) {
	if n, ok := whole(v); ok {
		return float64(n), true
	}
	f, ok := v.(float64)
	return f, ok
}

// whole converts an int or a bool.
func whole(v Value) (int, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int:
		return v, true
	}
	return 0, false
}

func truth(v Value) bool {
	switch v := v.(type) {
	case nil, Undefined:
		return false
	case Text:
		return v.S != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return v.namespace || len(v.keys) > 0
	}
	if f, ok := number(v); ok {
		return f != 0
	}
	return true
}

// kindWithArticle is the type of a value with its article, for messages.
func kindWithArticle(v Value) string {
	switch name := kind(v); name {
	case "None":
		return name
	case "int", "undefined value":
		return "an " + name
	default:
		return "a " + name
	}
}

// kind is the name of the type of a value in Python.
func kind(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case Undefined:
		return "undefined value"
	case bool:
		return "bool"
	case int, bigNumber:
		return "int"
	case float64:
		return "float"
	case Text:
		return "str"
	case *List:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		if v.namespace {
			return "namespace"
		}
		return "dict"
	case *loop:
		return "loop"
	}
	return "function"
}

// show is str of Python, which {{ … }} prints.
func (in *interpreter) show(v Value) Text {
	switch v := v.(type) {
	case Text:
		return v
	case Undefined:
		return Text{}
	}
	var j joiner
	in.repr(&j, v)
	return j.text()
}

// repr is repr of Python.
func (in *interpreter) repr(j *joiner, v Value) {
	in.enter()
	defer in.leave()
	switch v := v.(type) {
	case nil:
		j.add(plain("None"))
	case bool:
		j.add(plain(map[bool]string{true: "True", false: "False"}[v]))
	case int:
		j.add(plain(strconv.Itoa(v)))
	case float64:
		j.add(plain(showFloat(v)))
	case bigNumber:
		j.add(plain(string(v)))
	case Text:
		in.charge(len(v.S) / bytesPerStep)
		j.add(v.like(quote(v.S)))
	case *List:
		open, end := "[", "]"
		if v.tuple {
			open, end = "(", ")"
		}
		j.add(plain(open))
		for i, item := range v.Items {
			if i > 0 {
				j.add(plain(", "))
			}
			in.repr(j, item)
		}
		if v.tuple && len(v.Items) == 1 {
			end = ",)"
		}
		j.add(plain(end))
	case *Dict:
		j.add(plain("{"))
		for i, key := range v.keys {
			if i > 0 {
				j.add(plain(", "))
			}
			in.repr(j, key)
			j.add(plain(": "))
			in.repr(j, v.values[i])
		}
		j.add(plain("}"))
	default:
		in.fail("%s cannot be printed", kindWithArticle(v))
	}
}

// showFloat formats a float as Python does.
func showFloat(f float64) string {
	switch size := math.Abs(f); {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	case size != 0 && (size < 1e-4 || size >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// quote formats a string as repr of Python does.
func quote(s string) string {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	out := []byte{q}
	for _, r := range s {
		switch {
		case r == rune(q) || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r == ' ' || unicode.IsPrint(r):
			out = append(out, string(r)...)
		default:
			out = append(out, escape(r)...)
		}
	}
	return string(append(out, q))
}

func escape(r rune) string {
	text := strconv.FormatInt(int64(r), 16)
	switch {
	case r < 0x100:
		return `\x` + strings.Repeat("0", 2-len(text)) + text
	case r < 0x10000:
		return `\u` + strings.Repeat("0", 4-len(text)) + text
	}
	return `\U` + strings.Repeat("0", 8-len(text)) + text
}

// equal is == of Python.
func (in *interpreter) equal(a, b Value) bool {
	in.enter()
	defer in.leave()
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case Undefined:
		_, ok := b.(Undefined)
		return ok
	case Text:
		y, ok := b.(Text)
		if !ok || len(a.S) != len(y.S) {
			return false
		}
		in.room(len(a.S))
		return a.S == y.S
	case *List:
		y, ok := b.(*List)
		if !ok || len(a.Items) != len(y.Items) || a.tuple != y.tuple {
			return false
		}
		for i := range a.Items {
			if !in.equal(a.Items[i], y.Items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || a.namespace || y.namespace || len(a.keys) != len(y.keys) {
			return ok && a == y
		}
		for i, k := range a.keys {
			if v, ok := y.Get(k); !ok || !in.equal(a.values[i], v) {
				return false
			}
		}
		return true
	}
	return a == b
}

// compare orders numbers, strings and lists; verb names the operation in messages.
func (in *interpreter) compare(a, b Value, verb string) int {
	in.enter()
	defer in.leave()
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		}
	}
	if x, ok := a.(Text); ok {
		if y, ok := b.(Text); ok {
			in.room(min(len(x.S), len(y.S)))
			return strings.Compare(x.S, y.S)
		}
	}
	x, ok1 := a.(*List)
	y, ok2 := b.(*List)
	if !ok1 || !ok2 {
		in.fail("%s: %s and %s have no order", verb, kindWithArticle(a), kindWithArticle(b))
	}
	for i := range min(len(x.Items), len(y.Items)) {
		if !in.equal(x.Items[i], y.Items[i]) {
			return in.compare(x.Items[i], y.Items[i], verb)
		}
	}
	return len(x.Items) - len(y.Items)
}
