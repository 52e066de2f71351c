package mathvalue

import "slices"

// places is at how many points expressions with variables are compared; further ones, which are of both signs and far apart, are for what
// has steps or bends in it, as |x| has.
const places, farPlaces = 4, 16

// same reports whether two readings have the same value.
func same(a, b expression) bool { return equal(spread(a.root), spread(b.root)) }

// spread makes a list of what has two signs: 1 ± 2 is 3, −1.
func spread(n *node) *node {
	if n.kind == either {
		args := []*node{spread(n.args[0]), spread(n.args[1])}
		for _, a := range args {
			a.name = n.name
		}
		return &node{kind: collection, args: args}
	}
	if n.kind == union || n.kind == collection {
		var args []*node
		for _, a := range n.args {
			a = spread(a)
			if n.kind == collection && (n.text == "" || n.text == "⦃⦄") && a.kind == collection && a.text == "" {
				args = append(args, a.args...)
			} else {
				args = append(args, a)
			}
		}
		return &node{kind: n.kind, text: n.text, args: args, name: n.name}
	}
	return n
}

// equal tells whether two parts have the same value. Of what has elements or sides each pair is compared once: elements are compared with
// each other more than once on every level of sets in sets.
func equal(a, b *node) bool {
	a, b = worked(unwrapped(a)), worked(unwrapped(b))
	if !composed(a) && a.kind != call {
		return compare(a, b)
	}
	alike, ok := a.alike[b]
	if !ok {
		if a.alike == nil {
			a.alike = map[*node]bool{}
		}
		alike = compare(a, b)
		a.alike[b] = alike
	}
	return alike
}

// compare compares collections element by element: those in round and square brackets and in matrices in their order, all
// others in any.
func compare(a, b *node) bool {
	if a.kind == union && intervals(b) || b.kind == union && intervals(a) {
		return permuted(distinct(a.args), distinct(b.args))
	}
	if a.kind != b.kind && (composed(a) || composed(b)) {
		return false
	}
	switch a.kind {
	case collection:
		if a.text != b.text && !(unordered(a) && unordered(b)) {
			return false
		}
		if unordered(a) {
			return permuted(distinct(a.args), distinct(b.args)) && (a.text != "" || b.text != "" || asOften(a.args, b.args))
		}
		return inOrder(a.args, b.args)
	case union:
		return permuted(distinct(a.args), distinct(b.args))
	case matrix:
		return inOrder(a.args, b.args)
	case call:
		if infix(a.text) || infix(b.text) {
			return a.text == b.text && inOrder(a.args, b.args)
		}
		if a.text == "=" || b.text == "=" {
			return a.text == b.text && (inOrder(a.args, b.args) || equal(a.args[0], b.args[1]) && equal(a.args[1], b.args[0]) || solved(a, b))
		}
	}
	return numbers(a, b)
}

// unwrapped is the only element of a list or of a union.
func unwrapped(n *node) *node {
	for (n.kind == union || n.kind == collection && n.text == "") && len(n.args) == 1 {
		n = n.args[0]
	}
	return n
}

// worked is the result of a calculation that is written out: 72 of 48 + 24 = 72.
func worked(n *node) *node {
	if n.kind == call && n.text == "=" && !n.has().variables && equal(n.args[0], n.args[1]) {
		return n.args[1]
	}
	return n
}

// solved reports whether two equations are the same up to what is added to both of their sides, and what they are multiplied by: what one
// side exceeds the other by is everywhere the same multiple of it. What says nothing, as x = x, is the same as nothing else.
func solved(a, b *node) bool {
	var first, second value
	for place := range places {
		x, ok := a.exceeds(place)
		y, too := b.exceeds(place)
		if place == 0 {
			first, second = x, y
		}
		if !ok || !too || !times(x, second).equal(times(y, first)) {
			return false
		}
	}
	return true
}

// exceeds is the difference of the sides of an equation, if there is one.
func (n *node) exceeds(place int) (value, bool) {
	x, ok := n.args[0].at(place)
	y, too := n.args[1].at(place)
	return add(x, negated(y)), ok && too && !x.equal(y)
}

// intervals reports whether a list has nothing but intervals, of one variable, in it: such a list is their union.
func intervals(n *node) bool {
	return n.kind == collection && n.text == "" && !slices.ContainsFunc(n.args, func(a *node) bool {
		return a.kind != collection || len(a.args) != 2 || a.text == "" || a.text == "⦃⦄" || a.name != ""
	})
}

func composed(n *node) bool { return n.kind == collection || n.kind == union || n.kind == matrix }

// unordered reports whether it is a set, or a list without brackets.
func unordered(n *node) bool { return n.text == "⦃⦄" || n.text == "" }

func inOrder(a, b []*node) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalElement(a[i], b[i]) {
			return false
		}
	}
	return true
}

// equalElement compares rows of a matrix in their order too.
func equalElement(a, b *node) bool {
	if a.kind == collection && a.text == "" && b.kind == collection && b.text == "" {
		return inOrder(a.args, b.args)
	}
	return equal(a, b)
}

// distinct drops what is there twice.
func distinct(all []*node) (once []*node) {
	for _, n := range all {
		if !contains(once, n) {
			once = append(once, n)
		}
	}
	return once
}

func contains(all []*node, n *node) bool {
	for _, m := range all {
		if (m.name == n.name || m.name == "" || n.name == "") && equal(m, n) {
			return true
		}
	}
	return false
}

// permuted compares what is distinct in any order: all of each is in the other.
func permuted(a, b []*node) bool {
	return within(a, b) && within(b, a)
}

func within(a, b []*node) bool {
	for _, n := range a {
		if !contains(b, n) {
			return false
		}
	}
	return true
}

// asOften reports whether each value is in two lists equally often, which it need not be in sets.
func asOften(a, b []*node) bool {
	count := func(all []*node, n *node) (times int) {
		for _, m := range all {
			if equal(m, n) {
				times++
			}
		}
		return times
	}
	return len(a) == len(b) && !slices.ContainsFunc(a, func(n *node) bool { return count(a, n) != count(b, n) })
}

// numbers compares two expressions at some places: where neither has variables, at each the same. At far places, some of which are whole,
// both may have no value.
func numbers(a, b *node) bool {
	from, to := 0, places
	if a.has().steps || b.has().steps {
		from, to = places, places+farPlaces
	}
	compared := false
	for place := from; place < to; place++ {
		x, ok := a.at(place)
		y, too := b.at(place)
		switch {
		case !ok && !too && from > 0:
		case !ok || !too || !x.equal(y):
			return false
		default:
			compared = true
		}
	}
	return compared
}

// at is the value at a place, which is worked out once: an element of a set is compared with many.
func (n *node) at(place int) (value, bool) {
	if n.values[place] == nil {
		v, ok := scope{place}.evaluate(n)
		n.values[place] = &worth{v, ok}
	}
	return n.values[place].value, n.values[place].ok
}
