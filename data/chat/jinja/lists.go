package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// reader returns a function that reads an attribute of an item, by a path such as "a.b"; nil: the item itself.
func (in *interpreter) reader(path Value) func(Value) Value {
	if path == nil {
		return func(v Value) Value { return v }
	}
	if n, ok := whole(path); ok {
		return func(v Value) Value { return in.item(v, n) }
	}
	parts := strings.Split(in.show(path).S, ".")
	return func(v Value) Value {
		for _, part := range parts {
			in.charge(1)
			if n, err := strconv.Atoi(part); err == nil {
				v = in.item(v, n)
			} else {
				v = in.item(v, plain(part))
			}
		}
		return v
	}
}

// itemsIfAny are the items of v, or none if v is falsy, such as none: some filters accept that.
func (in *interpreter) itemsIfAny(v Value) []Value {
	if !truth(v) {
		return nil
	}
	return in.items(v)
}

// folded is a value in lower case, unless the comparison is case-sensitive.
func (in *interpreter) folded(v Value, sensitive bool) Value {
	if t, ok := v.(Text); ok && !sensitive {
		in.room(len(t.S))
		return plain(strings.ToLower(t.S))
	}
	return v
}

func mapped(in *interpreter, v Value, a arguments) Value {
	var out []Value
	path, byAttribute := a.get(-1, "attribute")
	fallback, hasFallback := a.get(-1, "default")
	read := in.reader(path)
	for _, item := range in.itemsIfAny(v) {
		in.charge(1)
		if !byAttribute {
			if len(a.list) == 0 {
				in.fail("map: expected a filter, or attribute=")
			}
			out = append(out, in.filter(in.show(a.list[0]).S, item, arguments{a.list[1:], a.names, a.named}))
			continue
		}
		found := read(item)
		if _, missing := found.(Undefined); missing && hasFallback {
			found = fallback
		}
		out = append(out, found)
	}
	return in.list(out)
}

// selecting makes the filters select, reject, selectattr and rejectattr.
func selecting(want, byAttribute bool) filterFunc {
	return func(in *interpreter, v Value, a arguments) Value {
		var out []Value
		rest := a
		var path Value
		if byAttribute {
			if len(a.list) == 0 {
				in.fail("selectattr, rejectattr: expected the name of an attribute")
			}
			path, rest.list = a.list[0], a.list[1:]
		}
		read := in.reader(path)
		for _, item := range in.itemsIfAny(v) {
			in.charge(1)
			var ok bool
			if looked := read(item); len(rest.list) == 0 {
				ok = truth(looked)
			} else {
				ok = in.test(in.show(rest.list[0]).S, looked, arguments{rest.list[1:], rest.names, rest.named})
			}
			if ok == want {
				out = append(out, item)
			}
		}
		return in.list(out)
	}
}

func joined(in *interpreter, v Value, a arguments) Value {
	a.only(in, "join", "d", "attribute")
	path, _ := a.get(1, "attribute")
	read := in.reader(path)
	items := in.items(v)
	parts := make([]Value, len(items))
	for i, item := range items {
		parts[i] = read(item)
	}
	in.charge(stepsPerItem * len(parts))
	return in.join(parts, a.text(in, 0, "d", ""))
}

// ordered sorts items by the key that read returns.
func (in *interpreter) ordered(items []Value, read func(Value) Value, sensitive, backward bool) []Value {
	keys := map[int]Value{}
	order := make([]int, len(items))
	for i, item := range items {
		in.charge(2 * stepsPerItem)
		order[i], keys[i] = i, in.folded(read(item), sensitive)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		c := in.compare(keys[a], keys[b], "sort")
		if backward {
			return -c
		}
		return c
	})
	out := make([]Value, len(items))
	for i, k := range order {
		out[i] = items[k]
	}
	return out
}

func sorted(in *interpreter, v Value, a arguments) Value {
	a.only(in, "sort", "reverse", "case_sensitive", "attribute")
	path, _ := a.get(2, "attribute")
	return in.list(in.ordered(in.items(v), in.reader(path), a.flag(1, "case_sensitive"), a.flag(0, "reverse")))
}

func dictSort(in *interpreter, v Value, a arguments) Value {
	a.only(in, "dictsort", "case_sensitive", "by", "reverse")
	d, ok := v.(*Dict)
	if !ok {
		in.fail("dictsort: found %s, expected a dict", describe(v))
	}
	place := 0
	if by := a.text(in, 1, "by", "key").S; by == "value" {
		place = 1
	}
	return in.list(in.ordered(in.pairs(d).Items, in.reader(place), a.flag(0, "case_sensitive"), a.flag(2, "reverse")))
}

func groupBy(in *interpreter, v Value, a arguments) Value {
	a.only(in, "groupby", "attribute", "default", "case_sensitive")
	path, _ := a.get(0, "attribute")
	fallback, hasFallback := a.get(1, "default")
	sensitive := a.flag(2, "case_sensitive")
	look := in.reader(path)
	read := func(v Value) Value {
		found := look(v)
		if _, missing := found.(Undefined); missing && hasFallback {
			return fallback
		}
		return found
	}
	var groups []Value
	var last Value
	for i, item := range in.ordered(in.items(v), read, sensitive, false) {
		key := in.folded(read(item), sensitive)
		if i == 0 || !in.equal(key, last) {
			groups = append(groups, &List{Items: []Value{read(item), &List{}}, tuple: true, group: true})
			in.charge(4 * stepsPerItem)
		}
		l := groups[len(groups)-1].(*List).Items[1].(*List)
		l.Items = append(l.Items, item)
		last = key
	}
	return in.list(groups)
}

func unique(in *interpreter, v Value, a arguments) Value {
	a.only(in, "unique", "case_sensitive", "attribute")
	path, _ := a.get(1, "attribute")
	read, seen := in.reader(path), NewDict()
	var out []Value
	for _, item := range in.items(v) {
		in.charge(stepsPerItem)
		key := in.key(in.folded(read(item), a.flag(0, "case_sensitive")))
		if _, ok := seen.Get(key); !ok {
			seen.Set(key, nil)
			out = append(out, item)
		}
	}
	return in.list(out)
}

func extreme(sign int) filterFunc {
	return func(in *interpreter, v Value, a arguments) Value {
		path, _ := a.get(1, "attribute")
		read := in.reader(path)
		var best Value = Undefined{"the smallest or largest of nothing is undefined"}
		for i, item := range in.items(v) {
			sensitive := a.flag(0, "case_sensitive")
			if i == 0 || sign*in.compare(in.folded(read(item), sensitive), in.folded(read(best), sensitive), "min, max") > 0 {
				best = item
			}
		}
		return best
	}
}

func sum(in *interpreter, v Value, a arguments) Value {
	a.only(in, "sum", "attribute", "start")
	path, _ := a.get(0, "attribute")
	read := in.reader(path)
	var total Value = a.int(in, 1, "start", 0)
	for _, item := range in.items(v) {
		in.charge(1)
		total = in.calculate("+", total, read(item))
	}
	return total
}

// batch splits the items into lists of n.
func batch(in *interpreter, v Value, a arguments) Value {
	a.only(in, "batch", "linecount", "fill_with")
	n := a.int(in, 0, "linecount", 0)
	if n < 1 {
		in.fail("batch: found %d items a list, expected 1 or more", n)
	}
	fill, _ := a.get(1, "fill_with")
	var out []Value
	for some := range slices.Chunk(in.items(v), n) {
		some = slices.Clone(some)
		for fill != nil && len(some) < n {
			in.charge(stepsPerItem)
			some = append(some, fill)
		}
		out = append(out, in.list(some))
	}
	return in.list(out)
}
