package grammar

import "slices"

// oneOf requires that exactly one branch fits. An automaton cannot check that the others do not, so oneOf is treated as anyOf where it
// can be proved that no value fits two branches ("apart": their types, their constants, or the values of a required property have
// nothing in common), and is refused otherwise.

const (
	mostProofs = 200_000 // steps of all proofs of a schema
	mostLevels = 4       // nesting of the properties that are compared
)

// exclusive refuses a oneOf unless its branches are pairwise apart.
func (c *compiler) exclusive(o *object, branches []conjunction) {
	before := c.work
	for j := range branches {
		for i := range j {
			found := false
			for levels := 0; levels <= mostLevels && !found && c.b.err == nil; levels++ { // most proofs need few levels, and cost less there
				c.work = 0 // every proof has its own limit
				found = c.apart(branches[i], branches[j], levels)
			}
			switch {
			case found || c.b.err != nil:
			case c.proofs > mostProofs:
				c.fail(o.at, "oneOf: it is too large to prove that no value matches two of its branches; write anyOf")
			default:
				c.fail(o.at, "oneOf: a value may match both of its branches %d and %d, which a grammar cannot exclude; write anyOf, or require in "+
					"both a property with a different const", i, j)
			}
		}
	}
	c.work = before
}

// apart reports whether it can be proved that no value generated for a fits b, nor one generated for b fits a.
func (c *compiler) apart(a, b conjunction, levels int) bool {
	if a.never || b.never {
		return true
	}
	all := slices.Concat(a.of, b.of)
	if c.proofs += 1 + constantsOf(all); c.proofs > mostProofs || c.work > mostSchemas/2 || c.b.err != nil {
		return false
	}
	may := c.shown(a.of)&c.said(b.of) | c.said(a.of)&c.shown(b.of)
	if may == 0 {
		return true
	}
	if values, found := c.constants(all); found && !slices.ContainsFunc(values, func(v any) bool {
		return c.typeOf(v, c.text(nil, v))&may != 0
	}) {
		return true
	}
	if may == objects && levels > 0 && slices.ContainsFunc(requiredOf(all), func(name string) bool {
		return c.apart(c.valueOf(a.of, name), c.valueOf(b.of, name), levels-1)
	}) {
		return true
	}
	if within, ok := c.within(a); ok {
		return !slices.ContainsFunc(within, func(one conjunction) bool { return !c.apart(one, b, levels) })
	}
	if within, ok := c.within(b); ok {
		return !slices.ContainsFunc(within, func(one conjunction) bool { return !c.apart(a, one, levels) })
	}
	return false
}

// said are the types that the keyword type allows.
func (c *compiler) said(of []schema) types {
	may := everyType
	for _, s := range of {
		if v, ok := s.vals["type"]; ok {
			may &= c.typesOf(s.object, v)
		}
	}
	return may
}

// shown are the types that are generated, which may be fewer: without type, the other keywords decide.
func (c *compiler) shown(of []schema) types {
	if _, _, open := undecided(of); open {
		return c.said(of) // a branch may still restrict the types
	}
	return c.types(of)
}

// within returns the branches of the first undecided choice; false if there is none.
func (c *compiler) within(all conjunction) (branches []conjunction, ok bool) {
	i, bit, ok := undecided(all.of)
	if !ok {
		return nil, false
	}
	return c.branches(all.of, i, bit), true
}

// constantsOf is the number of enum values.
func constantsOf(of []schema) (n int) {
	for _, s := range of {
		list, _ := s.vals["enum"].([]any)
		n += len(list)
	}
	return n
}

// requiredOf are the names of the required properties.
func requiredOf(of []schema) (names []string) {
	for _, s := range of {
		list, _ := s.vals["required"].([]any)
		for _, v := range list {
			if name, ok := v.(string); ok && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
