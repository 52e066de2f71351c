package jinja

type forLoop struct {
	target          []target
	over, only      expr
	body, otherwise []statement
	recursive       bool
}

func (s *forLoop) run(in *interpreter) { s.rounds(in, in.items(in.eval(s.over)), 0) }

// rounds goes over items; depth is that of loop(…) calls.
func (s *forLoop) rounds(in *interpreter, items []Value, depth int) {
	outer := in.scope
	if s.only != nil {
		items = s.chosen(in, items)
	}
	l := &loop{of: s, items: items, depth: depth, outer: outer}
	in.loops++
	for l.at = range items {
		in.inner(outer, func() {
			in.assign(s.target, items[l.at])
			in.scope.vars["loop"] = l
			in.block(s.body)
		})
		left := in.left
		in.left = goOn
		if left == breakLoop {
			break
		}
	}
	in.loops--
	if len(items) == 0 {
		in.inner(outer, func() { in.block(s.otherwise) })
	}
}

// chosen are the items for which the condition of the loop holds.
func (s *forLoop) chosen(in *interpreter, items []Value) (some []Value) {
	for _, item := range items {
		in.inner(in.scope, func() {
			in.assign(s.target, item)
			if truth(in.eval(s.only)) {
				some = append(some, item)
			}
		})
	}
	in.charge(stepsPerItem * len(some))
	return some
}

// loop is the variable of that name.
type loop struct {
	of      *forLoop
	items   []Value
	at      int
	depth   int
	outer   *scope
	changed *List // what loop.changed was given last
}

func (l *loop) field(in *interpreter, name string) Value {
	n := len(l.items)
	switch name {
	case "index":
		return l.at + 1
	case "index0":
		return l.at
	case "revindex":
		return n - l.at
	case "revindex0":
		return n - l.at - 1
	case "first":
		return l.at == 0
	case "last":
		return l.at == n-1
	case "length":
		return n
	case "depth":
		return l.depth + 1
	case "depth0":
		return l.depth
	case "previtem":
		return l.neighbour(-1, "loop.previtem")
	case "nextitem":
		return l.neighbour(1, "loop.nextitem")
	case "cycle":
		return &function{"loop.cycle", func(in *interpreter, a given) Value {
			if len(a.list) == 0 {
				in.fail("loop.cycle: no items")
			}
			return a.list[l.at%len(a.list)]
		}}
	case "changed":
		return &function{"loop.changed", func(in *interpreter, a given) Value {
			now := &List{Items: a.list}
			changed := l.changed == nil || !in.equal(l.changed, now)
			l.changed = now
			return changed
		}}
	}
	return nil
}

func (l *loop) neighbour(by int, name string) Value {
	if i := l.at + by; i >= 0 && i < len(l.items) {
		return l.items[i]
	}
	return Undefined{name + " is undefined"}
}

// again is loop(items) in a recursive loop.
func (l *loop) again(in *interpreter, a given) Value {
	if !l.of.recursive || len(a.list) != 1 {
		in.fail("loop(…): expected a loop that is recursive, and one argument")
	}
	return in.capture(func() {
		scope := in.scope
		in.scope = l.outer
		l.of.rounds(in, in.items(a.list[0]), l.depth+1)
		in.scope = scope
	})
}
