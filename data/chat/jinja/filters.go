package jinja

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/python"
	"github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"
)

// apply applies a filter to its operand; in a filter block the innermost operand is block, the text of the block.
func (in *interpreter) apply(e *syntax.Filtered, block Value) Value {
	in.enter()
	defer in.leave()
	v := block
	if f, ok := e.Of.(*syntax.Filtered); ok && block != nil {
		v = in.apply(f, block)
	} else if e.Of != nil {
		v = in.eval(e.Of)
	}
	return in.filter(e.Name, v, in.given(e.Arguments))
}

func (in *interpreter) filter(name string, v Value, a arguments) Value {
	f, ok := filters[name]
	if !ok {
		in.fail("the filter %q is not supported; supported are %s", name, strings.Join(slices.Sorted(maps.Keys(filters)), ", "))
	}
	return f(in, v, a)
}

type filterFunc = func(in *interpreter, v Value, a arguments) Value

var filters map[string]filterFunc

func init() {
	filters = map[string]filterFunc{
		"abs":    absolute,
		"batch":  batch,
		"count":  length,
		"length": length,
		"d":      otherwise, "default": otherwise,
		"dictsort": dictSort,
		"first":    func(in *interpreter, v Value, _ arguments) Value { return in.end(v, 0) },
		"last":     func(in *interpreter, v Value, _ arguments) Value { return in.end(v, -1) },
		"float":    toFloat,
		"format": func(in *interpreter, v Value, a arguments) Value {
			return in.format(in.show(v), &List{Items: a.list, tuple: true})
		},
		"groupby":    groupBy,
		"indent":     indent,
		"int":        toInt,
		"items":      itemsOf,
		"join":       joined,
		"list":       func(in *interpreter, v Value, _ arguments) Value { return in.list(slices.Clone(in.items(v))) },
		"map":        mapped,
		"max":        extreme(1),
		"min":        extreme(-1),
		"reject":     selecting(false, false),
		"rejectattr": selecting(false, true),
		"replace":    func(in *interpreter, v Value, a arguments) Value { return replaceText(in, in.show(v), a) },
		"reverse":    reversed,
		"round":      rounded,
		"safe":       func(in *interpreter, v Value, _ arguments) Value { return in.show(v) },
		"select":     selecting(true, false),
		"selectattr": selecting(true, true),
		"sort":       sorted,
		"string":     func(in *interpreter, v Value, _ arguments) Value { return in.show(v) },
		"sum":        sum,
		"tojson":     toJSON,
		"trim": func(in *interpreter, v Value, a arguments) Value {
			return trimmer("trim", true, true)(in, in.show(v), a)
		},
		"unique":    unique,
		"title":     func(in *interpreter, v Value, a arguments) Value { return caseOf(python.TitleWords)(in, in.show(v), a) },
		"wordcount": wordCount,
		"attr":      attribute,
	}
	for _, name := range []string{"lower", "upper", "capitalize"} {
		filters[name] = func(in *interpreter, v Value, a arguments) Value { return textMethods[name](in, in.show(v), a) }
	}
	for _, name := range []string{"e", "escape", "forceescape"} {
		filters[name] = escaped
	}
}

// attribute is a method, or a field of loop. Unlike a.b, it does not look up keys of a dict.
func attribute(in *interpreter, v Value, a arguments) Value {
	name := a.text(in, 0, "name", "").S
	if m := in.member(v, name); m != nil {
		return m
	}
	return Undefined{kindWithArticle(v) + " has no " + name}
}

func absolute(in *interpreter, v Value, _ arguments) Value {
	if in.compare(v, 0, "abs") < 0 {
		return in.calculate("-", 0, v)
	}
	return v
}

func length(in *interpreter, v Value, _ arguments) Value {
	switch v := v.(type) {
	case Text:
		in.room(len(v.S))
		return v.runeCount()
	case *List:
		return len(v.Items)
	case *Dict:
		return len(v.keys)
	case Undefined:
		return 0
	}
	in.fail("length: %s has none", kindWithArticle(v))
	return nil
}

func otherwise(in *interpreter, v Value, a arguments) Value {
	a.only(in, "default", "default_value", "boolean")
	if _, missing := v.(Undefined); missing || a.flag(1, "boolean") && !truth(v) {
		d, ok := a.get(0, "default_value")
		if !ok {
			return Text{}
		}
		return d
	}
	return v
}

// end is the first item (at 0) or the last (at -1).
func (in *interpreter) end(v Value, at int) Value {
	items := in.items(v)
	if i, ok := index(at, len(items)); ok {
		return items[i]
	}
	return Undefined{"an empty sequence has no first or last item"}
}

// indent indents the lines of a text, by default not the first.
func indent(in *interpreter, v Value, a arguments) Value {
	a.only(in, "indent", "width", "first", "blank")
	width, _ := a.get(0, "width")
	by, isText := width.(Text)
	if !isText {
		by = in.repeat(plain(" "), a.int(in, 0, "width", 4))
	}
	t := in.show(v)
	in.room(len(t.S) * bytesPerStep)
	var j joiner
	for i, line := range concat(t, plain("\n")).lines(false) {
		if i > 0 {
			j.add(plain("\n"))
		}
		if (i > 0 || a.flag(1, "first")) && (line.S != "" || a.flag(2, "blank") || i == 0) {
			j.add(in.made(by))
		}
		j.add(line)
	}
	return in.made(j.text())
}

func wordCount(in *interpreter, v Value, _ arguments) Value {
	t := in.show(v)
	in.room(len(t.S))
	n := 0
	for range strings.FieldsFuncSeq(t.S, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		n++
	}
	return n
}

func itemsOf(in *interpreter, v Value, _ arguments) Value {
	switch v := v.(type) {
	case *Dict:
		return in.pairs(v)
	case Undefined:
		return &List{}
	}
	in.fail("items: found %s, expected a dict", kindWithArticle(v))
	return nil
}

func reversed(in *interpreter, v Value, _ arguments) Value {
	if t, ok := v.(Text); ok {
		one := -1
		return in.sliceText(t, [3]*int{nil, nil, &one})
	}
	items := slices.Clone(in.items(v))
	slices.Reverse(items)
	return in.list(items)
}

// escaped escapes the special characters of HTML.
func escaped(in *interpreter, v Value, _ arguments) Value {
	t := in.show(v)
	in.room(len(t.S) * 4)
	for _, pair := range [][2]string{{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {`"`, "&#34;"}} {
		t = t.replace(plain(pair[0]), t.like(pair[1]), -1)
	}
	return in.made(t)
}
