package jinja

import "github.com/seed-7879b91d/grpo/data/chat/jinja/syntax"

// rounds runs a for statement over items; depth is that of the recursive calls loop(…).
func (in *interpreter) rounds(s *syntax.For, items []Value, depth int) {
	outer := in.scope
	if s.Only != nil {
		items = in.chosen(s, items)
	}
	l := &loop{of: s, items: items, depth: depth, outer: outer}
	in.loops++
	for l.at = range items {
		in.charge(2 * stepsPerItem) // for the variables, even if the body is empty
		in.inner(outer, func() {
			in.assign(s.Target, items[l.at])
			in.scope.vars["loop"] = l
			in.block(s.Body)
		})
		left := in.left
		in.left = noJump
		if left == breakLoop {
			break
		}
	}
	in.loops--
	if len(items) == 0 {
		in.inner(outer, func() { in.block(s.Otherwise) })
	}
}

// chosen are the items that fulfil the condition of a "for … if".
func (in *interpreter) chosen(s *syntax.For, items []Value) (some []Value) {
	for _, item := range items {
		in.inner(in.scope, func() {
			in.assign(s.Target, item)
			if truth(in.eval(s.Only)) {
				some = append(some, item)
			}
		})
	}
	in.charge(stepsPerItem * len(some))
	return some
}

// loop is the variable loop in the body of a for statement.
type loop struct {
	of      *syntax.For
	items   []Value
	at      int
	depth   int
	outer   *scope
	changed *List // the arguments of the last loop.changed
}

func (l *loop) field(name string) Value {
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
		return &function{"loop.cycle", func(in *interpreter, a arguments) Value {
			if len(a.list) == 0 {
				in.fail("loop.cycle: no items")
			}
			return a.list[l.at%len(a.list)]
		}}
	case "changed":
		return &function{"loop.changed", func(in *interpreter, a arguments) Value {
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

// again is the call loop(items) in a recursive loop.
func (l *loop) again(in *interpreter, a arguments) Value {
	if !l.of.Recursive || len(a.list) != 1 {
		in.fail("loop(…): expected a loop that is recursive, and one argument")
	}
	return in.capture(func() {
		scope := in.scope
		in.scope = l.outer
		in.rounds(l.of, in.items(a.list[0]), l.depth+1)
		in.scope = scope
	})
}
