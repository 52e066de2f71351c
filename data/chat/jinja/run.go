package jinja

import "github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"

// signal says whether a break or continue of the innermost loop is pending.
type signal int

const (
	noJump signal = iota
	breakLoop
	continueLoop
)

func (in *interpreter) block(all []syntax.Statement) {
	for _, s := range all {
		if in.left != noJump {
			return
		}
		in.enter()
		in.statement(s)
		in.leave()
	}
}

func (in *interpreter) statement(s syntax.Statement) {
	switch s := s.(type) {
	case *syntax.Printed:
		in.out.add(in.made(in.show(in.eval(s.Of))))
	case *syntax.Condition:
		if truth(in.eval(s.Test)) {
			in.block(s.Then)
		} else {
			in.block(s.Otherwise)
		}
	case *syntax.For:
		in.rounds(s, in.items(in.eval(s.Over)), 0)
	case *syntax.Jump:
		in.runJump(s)
	case *syntax.Assignment:
		in.runAssignment(s)
	case *syntax.Macro:
		in.scope.vars[s.Name] = &closure{s, in.scope}
	case *syntax.CallBlock:
		in.runCallBlock(s)
	case *syntax.FilterBlock:
		in.runFilterBlock(s)
	case *syntax.With:
		in.runWith(s)
	case *syntax.Scoped:
		in.inner(in.scope, func() { in.block(s.Body) })
	}
}

func (in *interpreter) runJump(s *syntax.Jump) {
	if in.loops == 0 {
		in.fail("break or continue outside of a loop")
	}
	in.left = continueLoop
	if s.Out {
		in.left = breakLoop
	}
}

func (in *interpreter) assign(targets []syntax.Target, v Value) {
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
	if t.Field == "" {
		in.scope.vars[t.Name] = v
		return
	}
	found, _ := in.lookup(t.Name)
	d, ok := found.(*Dict)
	if !ok || !d.namespace {
		in.fail("set %s.%s: %s is no namespace", t.Name, t.Field, t.Name)
	}
	in.charge(stepsPerItem)
	d.Set(plain(t.Field), v)
}

func (in *interpreter) runAssignment(s *syntax.Assignment) {
	if s.Value != nil {
		in.assign(s.Targets, in.eval(s.Value))
		return
	}
	in.assign(s.Targets, in.capture(func() {
		in.inner(in.scope, func() { in.block(s.Body) })
	}))
}

func (in *interpreter) runFilterBlock(s *syntax.FilterBlock) {
	text := in.capture(func() { in.inner(in.scope, func() { in.block(s.Body) }) })
	in.out.add(in.made(in.show(in.apply(s.Filter, text))))
}

func (in *interpreter) runWith(s *syntax.With) {
	values := make([]Value, len(s.Values))
	for i, e := range s.Values {
		values[i] = in.eval(e)
	}
	in.inner(in.scope, func() {
		for i, name := range s.Names {
			in.scope.vars[name] = values[i]
		}
		in.block(s.Body)
	})
}

// items are the items that a loop over v visits.
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
	in.fail("%s cannot be iterated", kindWithArticle(v))
	return nil
}
