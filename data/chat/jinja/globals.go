package jinja

// globals are the global functions of every template.
var globals map[string]Value

func init() { // a literal would be an initialization cycle: the functions refer to globals
	globals = map[string]Value{}
	for name, f := range map[string]func(in *interpreter, a arguments) Value{
		"range":           rangeOf,
		"dict":            dictOf,
		"namespace":       namespaceOf,
		"cycler":          notSupported("cycler"),
		"joiner":          notSupported("joiner"),
		"lipsum":          notSupported("lipsum"),
		"raise_exception": raise,
		"strftime_now":    strftimeNow,
	} {
		globals[name] = &function{name, f}
	}
}

func notSupported(name string) func(in *interpreter, a arguments) Value {
	return func(in *interpreter, _ arguments) Value {
		in.fail("the function %s is not supported", name)
		return nil
	}
}

func raise(in *interpreter, a arguments) Value {
	v, _ := a.get(0, "message")
	panic(&failure{&Refusal{in.show(v).S}})
}

func strftimeNow(in *interpreter, a arguments) Value {
	a.only(in, "strftime_now", "format")
	if in.options.Strftime == nil {
		in.fail("it calls strftime_now, but no date is given")
	}
	text, err := in.options.Strftime(a.text(in, 0, "format", "").S)
	if err != nil {
		in.fail("strftime_now: %w", err)
	}
	return in.made(plain(text))
}

func rangeOf(in *interpreter, a arguments) Value {
	a.only(in, "range", "start", "stop", "step")
	from, to, step := 0, a.int(in, 0, "stop", 0), a.int(in, 2, "step", 1)
	if len(a.list) > 1 {
		from, to = to, a.int(in, 1, "stop", 0)
	}
	if step == 0 {
		in.fail("range: the step is 0")
	}
	var items []Value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		in.charge(stepsPerItem)
		items = append(items, i)
		if next := i + step; (next > i) != (step > 0) {
			break
		}
	}
	return &List{Items: items}
}

func dictOf(in *interpreter, a arguments) Value {
	d := NewDict()
	if len(a.list) > 0 {
		in.merge(d, a.list[0])
	}
	for i, name := range a.names {
		in.charge(stepsPerItem)
		d.Set(plain(name), a.named[i])
	}
	return d
}

func (in *interpreter) merge(d *Dict, v Value) {
	if from, ok := v.(*Dict); ok {
		v = in.pairs(from)
	}
	for _, pair := range in.items(v) {
		in.charge(stepsPerItem)
		kv := in.items(pair)
		if len(kv) != 2 {
			in.fail("dict: expected pairs of a key and a value")
		}
		d.Set(in.key(kv[0]), kv[1])
	}
}

func namespaceOf(in *interpreter, a arguments) Value {
	d := dictOf(in, a).(*Dict)
	d.namespace = true
	return d
}
