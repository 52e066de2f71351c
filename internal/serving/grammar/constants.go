package grammar

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/serving/grammar/automata"
)

// constants are the values that enum and const allow, if one of them is present.
func (c *compiler) constants(of []schema) (values []any, found bool) {
	for _, s := range of {
		lists := [][]any{}
		if v, ok := s.vals["const"]; ok {
			lists = append(lists, []any{v})
		}
		if v, ok := s.vals["enum"]; ok {
			list, _ := v.([]any)
			if len(list) == 0 {
				c.fail(s.at, "enum: expected a list of values")
			}
			lists = append(lists, list)
		}
		for _, list := range lists {
			if !found {
				values, found = list, true
				continue
			}
			have := map[string]bool{}
			for _, v := range list {
				have[c.text(s.at, v)] = true
			}
			values = slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !have[c.text(s.at, v)] })
		}
	}
	return values, found
}

// constant adds paths from n to end for those of the values that also fit the other keywords.
func (c *compiler) constant(n int32, of []schema, may types, values []any, end int32) {
	var texts []string
	for _, v := range values {
		text := c.text(of[0].at, v)
		switch {
		case c.b.err != nil:
			return
		case c.typeOf(v, text)&may == 0 || !c.holds(of, may, v, text):
			continue
		}
		switch v := v.(type) {
		case *object, []any:
			c.b.call(n, c.fixed(v), end)
		case json.Number:
			texts = append(texts, string(v))
		default:
			texts = append(texts, text)
		}
	}
	c.b.oneOf(n, texts, end)
}

// typeOf is the type of a value.
func (c *compiler) typeOf(v any, text string) types {
	switch v.(type) {
	case nil:
		return nulls
	case bool:
		return booleans
	case string:
		return strs
	case json.Number:
		if strings.Contains(text, ".") {
			return fractions
		}
		return integers
	case *object:
		return objects
	}
	return arrays
}

// holds reports whether the keywords other than enum and const accept a value.
func (c *compiler) holds(of []schema, may types, v any, text string) bool {
	switch v := v.(type) {
	case string:
		l, ok := c.stringLeaf(of)
		n := int32(len([]rune(v)))
		return ok && l.auto.Matches(v) && n >= l.least && (l.most < 0 || n <= l.most)
	case json.Number:
		if !slices.ContainsFunc(of, func(s schema) bool { return s.about()&numbersAndIntegers != 0 }) {
			return true
		}
		a := c.number(of, may|integers)
		return a != nil && a.Matches(text)
	case *object, []any:
		for _, s := range of {
			if s.about()&(objects|arrays) != 0 {
				c.fail(s.at, "an object or array in enum or const is not supported together with other keywords about it; use only one of them")
			}
		}
	}
	return true
}

// about are the types that the keywords of a schema apply to.
func (s schema) about() (about types) {
	for _, key := range s.keys {
		about |= constraining[key]
	}
	return about
}

// fixed is the subnetwork that reads one constant object or array.
func (c *compiler) fixed(v any) int32 {
	start := c.b.node()
	if c.b.err != nil {
		return 0
	}
	switch v := v.(type) {
	case *object:
		list := c.open(start, '{')
		for i, key := range v.keys {
			list = c.following(list, i)
			next := c.b.node()
			c.named(list, key, c.fixed(v.vals[key]), next)
			list = next
		}
		c.close(list, '}', c.b.final(), len(v.keys) > 0)
	case []any:
		list := c.open(start, '[')
		for i, item := range v {
			list = c.following(list, i)
			next := c.b.node()
			c.b.call(list, c.fixed(item), next)
			list = next
		}
		c.close(list, ']', c.b.final(), len(v) > 0)
	case json.Number:
		c.b.free(c.b.text(start, string(v)), c.b.final())
	default:
		c.b.free(c.b.text(start, c.canonical(nil, v)), c.b.final())
	}
	return start
}

// text is canonical, cached for the values of enum and const, which proofs compare again and again.
func (c *compiler) text(at *location, v any) string {
	key := v
	if list, ok := v.([]any); ok && len(list) > 0 {
		key = &list[0]
	} else if ok {
		return "[]"
	}
	text, known := c.texts[key]
	if !known {
		text = c.canonical(at, v)
		c.texts[key] = text
	}
	return text
}

// canonical is a text that is the same for equal values.
func (c *compiler) canonical(at *location, v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case string:
		return quote(v)
	case json.Number:
		d, err := automata.NewDecimal(string(v))
		if err != nil {
			c.fail(at, "enum or const: %w", err)
		}
		return d.String()
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = c.canonical(at, item)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case *object:
		parts := make([]string, 0, len(v.keys))
		for _, key := range slices.Sorted(slices.Values(v.keys)) {
			parts = append(parts, quote(key)+":"+c.canonical(at, v.vals[key]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "null"
}
