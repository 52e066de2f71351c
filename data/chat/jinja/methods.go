package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/data/chat/jinja/python"
	"github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"
)

// method is a method of a value. Methods that would change a list or a dict are missing, because
// transformers forbid them, too.
type method[T any] func(in *interpreter, self T, a arguments) Value

func bound[T any](m method[T], self T) Value {
	if m == nil {
		return nil
	}
	return &function{"a method", func(in *interpreter, a arguments) Value { return m(in, self, a) }}
}

var textMethods map[string]method[Text]

func init() { // a literal would be an initialization cycle: the methods refer to textMethods
	textMethods = map[string]method[Text]{
		"strip":        trimmer("strip", true, true),
		"lstrip":       trimmer("lstrip", true, false),
		"rstrip":       trimmer("rstrip", false, true),
		"split":        splitter("split", Text.split, Text.fields),
		"rsplit":       splitter("rsplit", Text.rsplit, nil),
		"splitlines":   splitLines,
		"startswith":   affix("startswith", strings.HasPrefix),
		"endswith":     affix("endswith", strings.HasSuffix),
		"removeprefix": removePrefix,
		"removesuffix": removeSuffix,
		"replace":      replaceText,
		"lower":        caseOf(python.Lower),
		"upper":        caseOf(python.Upper),
		"title":        caseOf(python.Title),
		"capitalize":   caseOf(python.Capitalize),
		"find":         finder("find", strings.Index),
		"rfind":        finder("rfind", strings.LastIndex),
		"index":        finder("index", strings.Index),
		"count":        countText,
		"join":         joinText,
		"format":       func(in *interpreter, t Text, a arguments) Value { return in.braces(t, a) },
		"isdigit":      all(unicode.IsDigit),
		"isdecimal":    all(unicode.IsDigit),
		"isnumeric":    all(unicode.IsNumber),
		"isalpha":      all(unicode.IsLetter),
		"isalnum":      all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isspace":      all(syntax.IsSpace),
		"isupper":      cased(unicode.IsUpper, unicode.IsLower),
		"islower":      cased(unicode.IsLower, unicode.IsUpper),
	}
}

func trimmer(name string, left, right bool) method[Text] {
	return func(in *interpreter, t Text, a arguments) Value {
		a.only(in, name, "chars")
		var chars *string
		if v, ok := a.get(0, "chars"); ok && v != nil {
			text := a.text(in, 0, "chars", "")
			chars = &text.S
			in.repeats(len(text.S), 1+len(t.S)/bytesPerStep)
		}
		return in.made(t.trim(chars, left, right))
	}
}

func splitter(name string, bySep func(Text, string, int) []Text, bySpace func(Text, int) []Text) method[Text] {
	return func(in *interpreter, t Text, a arguments) Value {
		a.only(in, name, "sep", "maxsplit")
		most := a.int(in, 1, "maxsplit", -1)
		v, ok := a.get(0, "sep")
		in.room(len(t.S) * bytesPerStep) // parts may be of one byte each
		if !ok || v == nil {
			if bySpace == nil && most >= 0 {
				in.fail("%s: a limit without a separator is not supported", name)
			}
			if bySpace == nil {
				return in.texts(t.fields(most))
			}
			return in.texts(bySpace(t, most))
		}
		sep := a.text(in, 0, "sep", "")
		if sep.S == "" {
			in.fail("%s: the separator is empty", name)
		}
		return in.texts(bySep(t, sep.S, most))
	}
}

func (in *interpreter) texts(parts []Text) *List {
	items := make([]Value, len(parts))
	for i, p := range parts {
		in.made(p)
		items[i] = p
	}
	return in.list(items)
}

func splitLines(in *interpreter, t Text, a arguments) Value {
	a.only(in, "splitlines", "keepends")
	in.room(len(t.S) * bytesPerStep)
	return in.texts(t.lines(a.flag(0, "keepends")))
}

func affix(name string, has func(s, affix string) bool) method[Text] {
	return func(in *interpreter, t Text, a arguments) Value {
		a.only(in, name, "affix")
		v, _ := a.get(0, "affix")
		in.room(len(t.S))
		if l, ok := v.(*List); ok && l.tuple {
			for _, item := range l.Items {
				in.room(len(t.S))
				if s, ok := item.(Text); ok && has(t.S, s.S) {
					return true
				}
			}
			return false
		}
		return has(t.S, a.text(in, 0, "affix", "").S)
	}
}

func removePrefix(in *interpreter, t Text, a arguments) Value {
	p := a.text(in, 0, "prefix", "").S
	return in.made(t.slice(len(t.S)-len(strings.TrimPrefix(t.S, p)), len(t.S)))
}

func removeSuffix(in *interpreter, t Text, a arguments) Value {
	return in.made(t.slice(0, len(strings.TrimSuffix(t.S, a.text(in, 0, "suffix", "").S))))
}

func replaceText(in *interpreter, t Text, a arguments) Value {
	a.only(in, "replace", "old", "new", "count")
	old, new, n := a.text(in, 0, "old", ""), a.text(in, 1, "new", ""), a.int(in, 2, "count", -1)
	times := len(t.S)
	if old.S != "" {
		times = strings.Count(t.S, old.S)
	}
	in.room(len(t.S))
	in.repeats(times+1, 1+len(new.Data)+len(new.S)/bytesPerStep)
	return in.made(t.replace(old, new, n))
}

func caseOf(change func(string) string) method[Text] {
	return func(in *interpreter, t Text, a arguments) Value {
		in.room(len(t.S))
		return in.made(t.like(change(t.S)))
	}
}

func finder(name string, find func(s, part string) int) method[Text] {
	return func(in *interpreter, t Text, a arguments) Value {
		a.only(in, name, "sub")
		in.room(len(t.S))
		i := find(t.S, a.text(in, 0, "sub", "").S)
		if i < 0 && name == "index" {
			in.fail("index: the substring is not found")
		}
		if i < 0 {
			return -1
		}
		return utf8.RuneCountInString(t.S[:i])
	}
}

func countText(in *interpreter, t Text, a arguments) Value {
	in.room(len(t.S))
	return strings.Count(t.S, a.text(in, 0, "sub", "").S)
}

func joinText(in *interpreter, t Text, a arguments) Value {
	v, _ := a.get(0, "items")
	return in.join(in.items(v), t)
}

func (in *interpreter) join(items []Value, with Text) Text {
	var j joiner
	for i, item := range items {
		if i > 0 {
			j.add(in.made(with))
		}
		j.add(in.made(in.show(item)))
	}
	return j.text()
}

func all(is func(rune) bool) method[Text] {
	return func(in *interpreter, t Text, _ arguments) Value {
		in.room(len(t.S))
		return t.S != "" && strings.IndexFunc(t.S, func(r rune) bool { return !is(r) }) < 0
	}
}

func cased(some, none func(rune) bool) method[Text] {
	return func(in *interpreter, t Text, _ arguments) Value {
		in.room(len(t.S))
		return strings.IndexFunc(t.S, some) >= 0 && strings.IndexFunc(t.S, none) < 0
	}
}

var listMethods = map[string]method[*List]{
	"index": func(in *interpreter, l *List, a arguments) Value {
		v, _ := a.get(0, "value")
		for i, item := range l.Items {
			if in.equal(item, v) {
				return i
			}
		}
		in.fail("index: the value is not in the list")
		return nil
	},
	"count": func(in *interpreter, l *List, a arguments) Value {
		v, _ := a.get(0, "value")
		n := 0
		for _, item := range l.Items {
			if in.equal(item, v) {
				n++
			}
		}
		return n
	},
}

var dictMethods = map[string]method[*Dict]{
	"keys":   func(in *interpreter, d *Dict, _ arguments) Value { return in.list(d.keys) },
	"values": func(in *interpreter, d *Dict, _ arguments) Value { return in.list(d.values) },
	"items":  func(in *interpreter, d *Dict, _ arguments) Value { return in.pairs(d) },
	"get": func(in *interpreter, d *Dict, a arguments) Value {
		key, _ := a.get(0, "key")
		if v, ok := in.find(d, key); ok {
			return v
		}
		v, _ := a.get(1, "default")
		return v
	},
}

func (in *interpreter) pairs(d *Dict) *List {
	items := make([]Value, len(d.keys))
	for i, k := range d.keys {
		items[i] = &List{Items: []Value{k, d.values[i]}, tuple: true}
	}
	in.charge(2 * stepsPerItem * len(items))
	return in.list(items)
}
