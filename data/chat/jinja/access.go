package jinja

import (
	"slices"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"
)

func (in *interpreter) attribute(v Value, name string) Value {
	in.mustBeDefined(v, name)
	if m := in.member(v, name); m != nil {
		return m
	}
	if d, ok := v.(*Dict); ok {
		if found, ok := d.Get(plain(name)); ok {
			return found
		}
	}
	return Undefined{kindWithArticle(v) + " has no " + name}
}

// mustBeDefined fails if v is undefined, since it has no attributes.
func (in *interpreter) mustBeDefined(v Value, name string) {
	if u, ok := v.(Undefined); ok {
		in.fail(".%s of an undefined value: %s", name, u.what)
	}
}

// member is a method of v, or a field of loop or of a group; nil: none.
func (in *interpreter) member(v Value, name string) Value {
	switch v := v.(type) {
	case *loop:
		return v.field(name)
	case Text:
		return bound(textMethods[name], v)
	case *List:
		if i := slices.Index([]string{"grouper", "list"}, name); i >= 0 && v.group {
			return v.Items[i]
		}
		return bound(listMethods[name], v)
	case *Dict:
		if !v.namespace {
			return bound(dictMethods[name], v)
		}
	}
	return nil
}

func (in *interpreter) item(v, key Value) Value {
	name, isText := key.(Text)
	in.mustBeDefined(v, in.show(key).S)
	switch v := v.(type) {
	case *Dict:
		if found, ok := in.find(v, key); ok {
			return found
		}
	case *List:
		if i, ok := index(key, len(v.Items)); ok {
			return v.Items[i]
		}
	case Text:
		if n, ok := whole(key); ok {
			in.room(len(v.S))
			if i, ok := index(n, v.runeCount()); ok {
				at := v.byteAt(i)
				_, size := utf8.DecodeRuneInString(v.S[at:])
				return v.slice(at, at+size)
			}
		}
	}
	if isText {
		if m := in.member(v, name.S); m != nil {
			return m
		}
	}
	return Undefined{kindWithArticle(v) + " has no " + in.show(key).S}
}

// find is Get that charges for a long key.
func (in *interpreter) find(d *Dict, key Value) (Value, bool) {
	if t, ok := key.(Text); ok {
		in.room(len(t.S))
	}
	return d.Get(key)
}

// index converts a Python index, negative from the end, to one of n items; not ok: out of range.
func index(key Value, n int) (int, bool) {
	i, ok := whole(key)
	if i < 0 {
		i += n
	}
	return i, ok && i >= 0 && i < n
}

func (in *interpreter) evalSlicing(e *syntax.Slicing) Value {
	v := in.eval(e.Of)
	var given [3]*int
	for i, part := range e.Parts {
		if part == nil {
			continue
		}
		switch n := in.eval(part).(type) {
		case nil:
		case int:
			given[i] = &n
		default:
			in.fail("a slice: found %s, expected a whole number", kindWithArticle(n))
		}
	}
	switch v := v.(type) {
	case *List:
		var items []Value
		for _, i := range in.places(given, len(v.Items)) {
			items = append(items, v.Items[i])
		}
		l := in.list(items)
		l.tuple = v.tuple
		return l
	case Text:
		return in.sliceText(v, given)
	case Undefined:
		in.mustBeDefined(v, "a slice")
	}
	in.fail("%s has no slices", kindWithArticle(v))
	return nil
}

func (in *interpreter) sliceText(v Text, given [3]*int) Value {
	in.room(len(v.S))
	n := v.runeCount()
	if given[2] == nil || *given[2] == 1 {
		from, to := bounds(given, n, 1)
		return in.made(v.slice(v.byteAt(from), v.byteAt(max(from, to))))
	}
	var starts []int
	for i := range v.S {
		starts = append(starts, i)
	}
	starts = append(starts, len(v.S))
	var j joiner
	for _, i := range in.places(given, n) {
		j.add(v.slice(starts[i], starts[i+1]))
	}
	return in.made(j.text())
}

// bounds computes the range of a slice by the rules of Python, where indices may be negative or out of range.
func bounds(given [3]*int, n, step int) (from, to int) {
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	clip := func(p *int, otherwise int) int {
		if p == nil {
			return otherwise
		}
		i := *p
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	if step < 0 {
		return clip(given[0], high), clip(given[1], low)
	}
	return clip(given[0], low), clip(given[1], high)
}

// places are the indices of a slice of n items.
func (in *interpreter) places(given [3]*int, n int) (at []int) {
	step := 1
	if given[2] != nil {
		step = *given[2]
	}
	if step == 0 {
		in.fail("a slice: the step is 0")
	}
	from, to := bounds(given, n, step)
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		in.charge(1)
		at = append(at, i)
		if step > n || step < -n {
			break
		}
	}
	return at
}
