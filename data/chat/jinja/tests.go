package jinja

import (
	"maps"
	"slices"
	"strings"
)

func (in *interpreter) test(name string, v Value, a arguments) bool {
	t, ok := tests[name]
	if !ok {
		in.fail("the test %q is not supported; supported are %s", name, strings.Join(slices.Sorted(maps.Keys(tests)), ", "))
	}
	return t(in, v, a)
}

func is[T any](_ *interpreter, v Value, _ arguments) bool {
	_, ok := v.(T)
	return ok
}

// comparison makes a test of a comparison operator.
func comparison(op string) func(in *interpreter, v Value, a arguments) bool {
	return func(in *interpreter, v Value, a arguments) bool {
		other, ok := a.get(0, "other")
		if !ok {
			in.fail("is %s: expected something to compare with", op)
		}
		return in.holds(op, v, other)
	}
}

var tests map[string]func(in *interpreter, v Value, a arguments) bool

func init() {
	tests = map[string]func(in *interpreter, v Value, a arguments) bool{
		"defined":   func(in *interpreter, v Value, a arguments) bool { return !is[Undefined](in, v, a) },
		"undefined": is[Undefined],
		"none":      func(_ *interpreter, v Value, _ arguments) bool { return v == nil },
		"boolean":   is[bool],
		"true":      func(_ *interpreter, v Value, _ arguments) bool { return v == true },
		"false":     func(_ *interpreter, v Value, _ arguments) bool { return v == false },
		"integer":   func(_ *interpreter, v Value, _ arguments) bool { return kind(v) == "int" },
		"float":     is[float64],
		"number": func(_ *interpreter, v Value, _ arguments) bool {
			_, ok := number(v)
			_, big := v.(bigNumber)
			return ok || big
		},
		"string":   is[Text],
		"mapping":  func(_ *interpreter, v Value, _ arguments) bool { return kind(v) == "dict" },
		"sequence": sequence,
		"iterable": sequence,
		"callable": func(in *interpreter, v Value, a arguments) bool {
			return kind(v) == "function" || is[Undefined](in, v, a)
		},
		"sameas": same,
		"lower":  ofMethod("islower"),
		"upper":  ofMethod("isupper"),
		"even":   func(in *interpreter, v Value, _ arguments) bool { return in.equal(in.calculate("%", v, 2), 0) },
		"odd":    func(in *interpreter, v Value, _ arguments) bool { return in.equal(in.calculate("%", v, 2), 1) },
		"divisibleby": func(in *interpreter, v Value, a arguments) bool {
			return in.equal(in.calculate("%", v, a.int(in, 0, "num", 0)), 0)
		},
		"filter": func(in *interpreter, v Value, _ arguments) bool { _, ok := filters[in.show(v).S]; return ok },
		"test":   func(in *interpreter, v Value, _ arguments) bool { _, ok := tests[in.show(v).S]; return ok },
	}
	for op, names := range map[string]string{
		"==": "eq equalto ==", "!=": "ne !=", "<": "lt lessthan <", ">": "gt greaterthan >", "<=": "le <=", ">=": "ge >=", "in": "in",
	} {
		for _, name := range strings.Fields(names) {
			tests[name] = comparison(op)
		}
	}
}

// ofMethod makes a test that calls a method of the value as a text.
func ofMethod(name string) func(in *interpreter, v Value, a arguments) bool {
	return func(in *interpreter, v Value, a arguments) bool { return truth(textMethods[name](in, in.show(v), a)) }
}

func sequence(_ *interpreter, v Value, _ arguments) bool {
	switch v := v.(type) {
	case Text, *List, Undefined: // undefined counts as empty
		return true
	case *Dict:
		return !v.namespace
	}
	return false
}

func same(in *interpreter, v Value, a arguments) bool {
	other, _ := a.get(0, "other")
	if kind(v) != kind(other) {
		return false
	}
	switch v.(type) {
	case Text:
		return in.equal(v, other)
	}
	return v == other
}
