package mathvalue

import "slices"

// places is the number of points at which expressions with variables are compared. Expressions with steps or bends, such as |x|, are
// compared at farPlaces others, which are of both signs and far apart.
const places, farPlaces = 4, 16

// same reports whether two readings have the same value.
func same(a, b expression) bool { return equal(expandSigns(a.root), expandSigns(b.root)) }

// expandSigns replaces ± by a list of both values: 1 ± 2 is 3, −1.
func expandSigns(n *node) *node {
	if n.kind == plusMinus {
		args := []*node{expandSigns(n.args[0]), expandSigns(n.args[1])}
		for _, a := range args {
			a.name = n.name
		}
		return &node{kind: collection, args: args}
	}
	if n.kind == union || n.kind == collection {
		var args []*node
		for _, a := range n.args {
			a = expandSigns(a)
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

// equal reports whether two nodes have the same value. The results for collections, calls and equations are cached: otherwise every level
// of nested sets would multiply the number of comparisons.
func equal(a, b *node) bool {
	a, b = resultOf(unwrapped(a)), resultOf(unwrapped(b))
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

// compare compares collections element by element, in order if they are in round or square brackets or in a matrix, else in any
// order.
func compare(a, b *node) bool {
	if a.kind == union && intervals(b) || b.kind == union && intervals(a) {
		return sameSet(distinct(a.args), distinct(b.args))
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
			return sameSet(distinct(a.args), distinct(b.args)) && (a.text != "" || b.text != "" || sameMultiset(a.args, b.args))
		}
		return inOrder(a.args, b.args)
	case union:
		return sameSet(distinct(a.args), distinct(b.args))
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

// unwrapped replaces a list or union of one element by that element.
func unwrapped(n *node) *node {
	for (n.kind == union || n.kind == collection && n.text == "") && len(n.args) == 1 {
		n = n.args[0]
	}
	return n
}

// resultOf replaces a correct calculation by its result: 48 + 24 = 72 by 72.
func resultOf(n *node) *node {
	if n.kind == call && n.text == "=" && !n.has().variables && equal(n.args[0], n.args[1]) {
		return n.args[1]
	}
	return n
}

// solved reports whether two equations are equivalent: at every place the difference of the sides of one is the same multiple of that of
// the other. An identity such as x = x, whose difference is 0, is equivalent to nothing.
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

// exceeds is the difference between the sides of an equation at a place; not ok: it is 0 or has no value.
func (n *node) exceeds(place int) (value, bool) {
	x, ok := n.args[0].at(place)
	y, too := n.args[1].at(place)
	return add(x, negated(y)), ok && too && !x.equal(y)
}

// intervals reports whether a list consists of intervals of one variable: it then stands for their union.
func intervals(n *node) bool {
	return n.kind == collection && n.text == "" && !slices.ContainsFunc(n.args, func(a *node) bool {
		return a.kind != collection || len(a.args) != 2 || a.text == "" || a.text == "⦃⦄" || a.name != ""
	})
}

func composed(n *node) bool { return n.kind == collection || n.kind == union || n.kind == matrix }

// unordered reports whether a collection is a set or a list without brackets.
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

// equalElement compares elements; lists without brackets, as the rows of a matrix, are compared in order.
func equalElement(a, b *node) bool {
	if a.kind == collection && a.text == "" && b.kind == collection && b.text == "" {
		return inOrder(a.args, b.args)
	}
	return equal(a, b)
}

// distinct drops repeated values.
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

// sameSet reports whether two lists of distinct values are equal as sets.
func sameSet(a, b []*node) bool {
	return isSubset(a, b) && isSubset(b, a)
}

func isSubset(a, b []*node) bool {
	for _, n := range a {
		if !contains(b, n) {
			return false
		}
	}
	return true
}

// sameMultiset reports whether each value occurs equally often in two lists. In sets that does not matter.
func sameMultiset(a, b []*node) bool {
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

// numbers compares the values of two expressions at several places; without variables the values are the same at each. At some of the
// far places, both may be undefined.
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

// at is the value at a place. It is cached, because an element of a set is compared with many others.
func (n *node) at(place int) (value, bool) {
	if n.values[place] == nil {
		v, ok := scope{place}.evaluate(n)
		n.values[place] = &valueOrNone{v, ok}
	}
	return n.values[place].value, n.values[place].ok
}
