package grammar

import "github.com/seed-7879b91d/grpo/internal/serving/grammar/automata"

// mostItems is the most items of a generated array with limits.
const mostItems = 4096

// open adds an opening bracket and white space after a node, and returns the node behind them.
func (c *compiler) open(from int32, bracket byte) int32 {
	inside, begun := c.b.node(), c.b.node()
	c.b.byte(from, bracket, inside)
	c.b.call(inside, c.b.space(), begun)
	return begun
}

// close adds a closing bracket from a node to end; with some, after white space. An empty container needs none there, as
// it has white space behind the opening bracket.
func (c *compiler) close(from int32, bracket byte, end int32, some bool) {
	last := from
	if some {
		last = c.b.node()
		c.b.call(from, c.b.space(), last)
	}
	c.b.byte(last, bracket, end)
}

// following adds a comma and white space after a node, and returns the node behind them; before the first element (nth 0) nothing.
func (c *compiler) following(from int32, nth int) int32 {
	if nth == 0 {
		return from
	}
	comma, next := c.b.node(), c.b.node()
	c.b.byte(from, ',', comma)
	c.b.call(comma, c.b.space(), next)
	return next
}

// named adds a name, a colon and a value.
func (c *compiler) named(from int32, name string, value, end int32) {
	c.colon(c.b.text(from, quote(name)), value, end)
}

func (c *compiler) colon(from, value, end int32) {
	colon, begun := c.b.node(), c.b.node()
	c.b.byte(from, ':', colon)
	c.b.call(colon, c.b.gap(), begun)
	c.b.call(begun, value, end)
}

// space is the subnetwork of white space between parts of a value: nothing, a space, or a line end and a limited number of
// blanks, so that a model cannot write white space forever.
func (b *builder) space() int32 {
	const blanks = 32
	return b.once("space", func(start int32) {
		b.byte(start, ' ', b.final())
		line := b.final()
		b.byte(start, '\n', line)
		for range blanks {
			next := b.final()
			b.byte(line, ' ', next)
			b.byte(line, '\t', next)
			line = next
		}
	})
}

// gap is the subnetwork of nothing or a space.
func (b *builder) gap() int32 {
	return b.once("gap", func(start int32) { b.byte(start, ' ', b.final()) })
}

// once returns the subnetwork of that name, which may match nothing. It is built on first use.
func (b *builder) once(name string, make func(start int32)) int32 {
	if n, ok := b.named[name]; ok {
		return n
	}
	n := b.final()
	b.named[name] = n
	make(n)
	return n
}

// array adds an array that fits all the schemas, from n to end.
func (c *compiler) array(n int32, of []schema, end int32) {
	least, most, prefix := 0, -1, 0 // prefix: how many items have schemas of their own
	for _, s := range of {
		least = max(least, c.count(s.object, "minItems", 0))
		limits := []int{c.count(s.object, "maxItems", -1)}
		first, _, hasRest := c.items(s)
		if prefix = max(prefix, len(first)); len(first) > 0 && !hasRest {
			limits = append(limits, len(first))
		}
		for _, m := range limits {
			if m >= 0 && (most < 0 || m < most) {
				most = m
			}
		}
	}
	if least > mostItems || prefix > mostItems {
		c.fail(of[0].at, "minItems or prefixItems: found %d, at most %d is supported", max(least, prefix), mostItems)
	}
	most = min(most, mostItems)
	begun, item := c.open(n, '['), c.b.node()
	c.b.free(begun, item)
	if least == 0 {
		c.b.byte(begun, ']', end)
	}
	if most == 0 {
		return
	}
	closing := c.b.node()
	c.close(closing, ']', end, true)
	for i := 0; c.b.err == nil; i++ {
		after := c.b.node()
		c.b.call(item, c.rule(c.itemAt(of, min(i, prefix))), after)
		if i+1 >= least {
			c.b.free(after, closing)
		}
		switch {
		case i+1 == most:
			return
		case most < 0 && i >= max(least, prefix): // the remaining items are all alike: loop
			c.b.free(c.following(after, 1), item)
			return
		}
		item = c.following(after, 1)
	}
}

// items are the schemas of an array's first items, and of the rest if there is one.
func (c *compiler) items(s schema) (first []any, rest any, hasRest bool) {
	first = c.list(s.object, "prefixItems")
	rest, hasRest = s.vals["items"]
	if list, ok := rest.([]any); ok { // older drafts of JSON Schema
		if _, also := s.vals["prefixItems"]; also {
			c.fail(s.at, "items: a list beside prefixItems")
		}
		first = list
		rest, hasRest = s.vals["additionalItems"]
	}
	return first, rest, hasRest
}

// itemAt are the schemas for item i.
func (c *compiler) itemAt(of []schema, i int) conjunction {
	var all conjunction
	for _, s := range of {
		switch first, rest, hasRest := c.items(s); {
		case i < len(first):
			all = c.and(all, first[i], nil)
		case hasRest:
			all = c.and(all, rest, nil)
		}
	}
	return all
}

// property is a property that an object may have.
type property struct {
	name     string
	value    conjunction
	required bool
}

// object adds an object that fits all the schemas, from n to end: the named properties in order, then others.
func (c *compiler) object(n int32, of []schema, end int32) {
	properties, others, open := c.properties(of)
	required := 0
	for _, p := range properties {
		if p.required {
			required++
		}
	}
	some := c.needsOne(of, required, len(properties), open)
	closing := c.b.node()
	c.close(closing, '}', end, true)
	// first: no property yet, next: after a comma, after: behind a property. From first and next, property i or a later one may follow.
	first, next, after := c.open(n, '{'), c.b.node(), int32(-1)
	for i := 0; c.b.err == nil; i++ {
		name := c.b.node()
		c.b.free(first, name)
		c.b.free(next, name)
		if after >= 0 {
			c.b.free(c.following(after, 1), next)
			if required == 0 {
				c.b.free(after, closing)
			}
		}
		if i == len(properties) {
			if !some {
				c.b.byte(first, '}', end)
			}
			if open {
				c.others(name, properties, others, closing)
			}
			return
		}
		p := properties[i]
		after = c.b.node()
		c.named(name, p.name, c.rule(p.value), after)
		nextFirst, nextNext := c.b.node(), c.b.node()
		if p.required {
			required--
		} else {
			c.b.free(first, nextFirst)
			c.b.free(next, nextNext)
		}
		first, next = nextFirst, nextNext
	}
}

// others adds any number of properties that the schema does not name.
func (c *compiler) others(name int32, properties []property, value conjunction, closing int32) {
	names := make([]string, len(properties))
	for i, p := range properties {
		names[i] = p.name
	}
	auto, err := automata.OtherThan(&c.b.budget, names)
	if err != nil {
		c.b.fail(err)
		return
	}
	key, after := c.b.node(), c.b.node()
	c.b.call(name, c.b.leaf(leaf{auto: auto, quoted: true, most: -1}), key)
	c.colon(key, c.rule(value), after)
	c.b.free(c.following(after, 1), name)
	c.b.free(after, closing)
}

// properties are those that the schemas name, in their order, and the schemas for others, if these are allowed.
func (c *compiler) properties(of []schema) (named []property, others conjunction, open bool) {
	var names []string
	required := map[string]bool{}
	listed := false
	for _, s := range of {
		if v, ok := s.vals["properties"]; ok {
			listed = true
			names = append(names, c.members(s, v).keys...)
		}
		if v, ok := s.vals["additionalProperties"]; ok {
			others, open = c.and(others, v, nil), true
		}
	}
	for _, s := range of {
		list, ok := s.vals["required"].([]any)
		if _, said := s.vals["required"]; said && !ok {
			c.fail(s.at, "required: expected a list of names")
		}
		for _, v := range list {
			name, ok := v.(string)
			if !ok {
				c.fail(s.at, "required: expected a list of names")
			}
			required[name] = true
			names = append(names, name)
		}
	}
	seen := map[string]bool{}
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			named = append(named, property{name, c.valueOf(of, name), required[name]})
		}
	}
	return named, others, open && !others.never || !open && !listed
}

// members is the value of properties, which must be an object.
func (c *compiler) members(s schema, v any) *object {
	o, ok := v.(*object)
	if !ok {
		c.fail(s.at, "properties: expected an object")
		return &object{}
	}
	return o
}

// valueOf are the schemas for the value of a property.
func (c *compiler) valueOf(of []schema, name string) (all conjunction) {
	for _, s := range of {
		if o, ok := s.vals["properties"].(*object); ok {
			if v, ok := o.vals[name]; ok {
				all = c.and(all, v, nil)
				continue
			}
		}
		if v, ok := s.vals["additionalProperties"]; ok {
			all = c.and(all, v, nil)
		}
	}
	return all
}

// needsOne refuses limits on the number of properties that would have to be enforced, as an automaton cannot count
// different keys. It reports whether at least one property is required.
func (c *compiler) needsOne(of []schema, required, named int, open bool) (some bool) {
	for _, s := range of {
		least, most := c.count(s.object, "minProperties", 0), c.count(s.object, "maxProperties", -1)
		some = some || least == 1
		if least > max(required, 1) {
			c.fail(s.at, "minProperties: found %d where %d properties are required; more is not supported", least, required)
		}
		if most >= 0 && (open || most < named) {
			c.fail(s.at, "maxProperties: found %d; it is supported where no more properties are named, and there are no additional ones", most)
		}
	}
	return some
}
