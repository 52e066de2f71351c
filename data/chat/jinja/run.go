package jinja

// signal says how the innermost loop is being left.
type signal int

const (
	goOn signal = iota
	breakLoop
	nextRound
)

func (in *interpreter) block(all []statement) {
	for _, s := range all {
		if in.left != goOn {
			return
		}
		in.enter()
		s.run(in)
		in.leave()
	}
}

// printed is text, or {{ … }}.
type printed struct{ of expr }

func (s *printed) run(in *interpreter) { in.out.add(in.made(in.show(in.eval(s.of)))) }

type condition struct {
	test      expr
	then      []statement
	otherwise []statement
}

func (s *condition) run(in *interpreter) {
	if truth(in.eval(s.test)) {
		in.block(s.then)
	} else {
		in.block(s.otherwise)
	}
}

type jump struct{ out bool }

func (s *jump) run(in *interpreter) {
	if in.loops == 0 {
		in.fail("break or continue outside of a loop")
	}
	in.left = nextRound
	if s.out {
		in.left = breakLoop
	}
}

// target is a name that is given a value, or the field of a namespace.
type target struct{ name, field string }

func (in *interpreter) assign(targets []target, v Value) {
	if len(targets) > 1 {
		items := in.items(v)
		if len(items) != len(targets) {
			in.fail("found %d values for %d names", len(items), len(targets))
		}
		for i := range targets {
			in.assign(targets[i:i+1], items[i])
		}
		return
	}
	t := targets[0]
	if t.field == "" {
		in.scope.vars[t.name] = v
		return
	}
	found, _ := in.lookup(t.name)
	d, ok := found.(*Dict)
	if !ok || !d.namespace {
		in.fail("set %s.%s: %s is no namespace", t.name, t.field, t.name)
	}
	in.charge(stepsPerItem)
	d.Set(plain(t.field), v)
}

// assignment is {% set a = b %}, or {% set a %}…{% endset %}.
type assignment struct {
	targets []target
	value   expr
	body    []statement
}

func (s *assignment) run(in *interpreter) {
	if s.value != nil {
		in.assign(s.targets, in.eval(s.value))
		return
	}
	in.assign(s.targets, in.capture(func() {
		in.inner(in.scope, func() { in.block(s.body) })
	}))
}

type filterBlock struct {
	filter *filtered
	body   []statement
}

func (s *filterBlock) run(in *interpreter) {
	text := in.capture(func() { in.inner(in.scope, func() { in.block(s.body) }) })
	in.out.add(in.made(in.show(s.filter.apply(in, text))))
}

// scoped has variables of its own.
type scoped struct{ body []statement }

func (s *scoped) run(in *interpreter) { in.inner(in.scope, func() { in.block(s.body) }) }

// with is {% with a = b %}.
type with struct {
	names  []string
	values []expr
	body   []statement
}

func (s *with) run(in *interpreter) {
	values := make([]Value, len(s.values))
	for i, e := range s.values {
		values[i] = in.eval(e)
	}
	in.inner(in.scope, func() {
		for i, name := range s.names {
			in.scope.vars[name] = values[i]
		}
		in.block(s.body)
	})
}

// items are those that a loop goes over.
func (in *interpreter) items(v Value) []Value {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *Dict:
		return v.keys
	case Undefined:
		return nil
	case Text:
		var all []Value
		in.charge(len(v.S) * stepsPerItem)
		for i, r := range v.S {
			all = append(all, v.slice(i, i+len(string(r))))
		}
		return all
	}
	in.fail("a %s has no items to go over", kind(v))
	return nil
}
