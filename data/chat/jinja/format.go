package jinja

import (
	"strconv"
	"strings"
)

// format is Python's "…%s…" % values, with %s, %d and %%.
func (in *interpreter) format(t Text, v Value) Text {
	values := []Value{v}
	if l, ok := v.(*List); ok && l.tuple {
		values = l.Items
	}
	var j joiner
	for at := 0; at < len(t.S); {
		i := strings.IndexByte(t.S[at:], '%')
		if i < 0 || at+i+1 == len(t.S) {
			j.add(t.slice(at, len(t.S)))
			break
		}
		j.add(t.slice(at, at+i))
		verb := t.S[at+i+1]
		at += i + 2
		switch {
		case verb == '%':
			j.add(plain("%"))
			continue
		case verb != 's' && verb != 'd':
			in.fail("the format %%%c is not supported; supported are %%s, %%d and %%%%", verb)
		case len(values) == 0:
			in.fail("%%: too few values for the format")
		}
		if _, ok := whole(values[0]); !ok && verb == 'd' {
			in.fail("%%d: found %s, expected a whole number", kindWithArticle(values[0]))
		}
		j.add(in.made(in.show(values[0])))
		values = values[1:]
	}
	if len(values) > 0 {
		in.fail("%%: too many values for the format")
	}
	return in.made(j.text())
}

// braces is Python's "…{}…".format(…), with {}, {0} and {name}.
func (in *interpreter) braces(t Text, a arguments) Text {
	var j joiner
	next := 0
	for at := 0; at < len(t.S); {
		i := strings.IndexAny(t.S[at:], "{}")
		if i < 0 {
			j.add(t.slice(at, len(t.S)))
			break
		}
		j.add(t.slice(at, at+i))
		at += i
		if at+1 < len(t.S) && t.S[at+1] == t.S[at] {
			j.add(t.slice(at, at+1))
			at += 2
			continue
		}
		end := strings.IndexByte(t.S[at:], '}')
		if t.S[at] == '}' || end < 0 {
			in.fail("format: a brace stands alone")
		}
		name := t.S[at+1 : at+end]
		place, err := strconv.Atoi(name)
		if name == "" {
			place, err = next, nil
			next++
		}
		if err != nil {
			place = -1
		}
		v, ok := a.get(place, name)
		if !ok {
			in.fail("format: {%s} is not supported or has no value; supported are {}, {0} and {name}", name)
		}
		j.add(in.made(in.show(v)))
		at += end + 1
	}
	return in.made(j.text())
}
