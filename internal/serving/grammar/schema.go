package grammar

import (
	"encoding/binary"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/grammar/automata"
)

// What is written fits the schema, and is less than everything that fits:
//
//   - Properties come in the order of the schema. Where additionalProperties is not said, an object has no others than
//     the properties that are named, if any are; where items is not said, an array has no more than prefixItems, if
//     that is there. Additional keys may come twice.
//   - Where a schema has no type, its keywords say for which it is meant: properties for an object, minimum for a number.
//   - Names, enum and const are spelled with as few escapes as JSON allows; any other string may have any escapes, in
//     which surrogates come in pairs.
//   - After {, [ and comma, and before } and ], there may be a space, or an end of line and up to 32 blanks; after a colon
//     a space.
//   - An integer fits in 64 bits and has no point; a number has at the most 21 digits before the point, 24 behind it and two
//     in the exponent, and no exponent where it has limits. Where a schema limits the items of an array, there are at most 4096.
//   - From a depth of 256 on, a document takes the shortest way to its end.
//   - oneOf is taken where its branches are apart, as apart.go has it: then it is anyOf. An email address, a host name and a
//     duration are of ordinary length.
//
// What could not be kept to is refused by name.

// constraining are the keywords that restrict values, with the types that they apply to; 0 is all types.
var constraining = map[string]types{
	"type": 0, "enum": 0, "const": 0, "anyOf": 0, "oneOf": 0, "allOf": 0, "$ref": 0, "nullable": 0,
	"properties": objects, "required": objects, "additionalProperties": objects, "minProperties": objects, "maxProperties": objects,
	"items": arrays, "prefixItems": arrays, "additionalItems": arrays, "minItems": arrays, "maxItems": arrays, "uniqueItems": arrays,
	"pattern": strs, "format": strs, "minLength": strs, "maxLength": strs,
	"minimum": numbersAndIntegers, "maximum": numbersAndIntegers, "exclusiveMinimum": numbersAndIntegers,
	"exclusiveMaximum": numbersAndIntegers, "multipleOf": numbersAndIntegers,
}

// describing are the keywords that restrict nothing.
var describing = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "example": true, "deprecated": true, "readOnly": true,
	"writeOnly": true, "$comment": true, "$schema": true, "$id": true, "$defs": true, "definitions": true, "discriminator": true,
	"contentEncoding": true, "contentMediaType": true, "$anchor": true,
}

// types is a set of types.
type types uint16

const (
	nulls types = 1 << iota
	booleans
	integers
	fractions // numbers that are not integers
	strs
	arrays
	objects

	numbersAndIntegers = integers | fractions
	everyType          = objects<<1 - 1
)

var typeNames = map[string]types{
	"null": nulls, "boolean": booleans, "integer": integers, "number": numbersAndIntegers, "string": strs, "array": arrays, "object": objects,
}

// schema is one object of a schema's text. All its keywords apply, except choices that have been made.
type schema struct {
	*object
	chosen uint8 // bits of anyOf and oneOf
}

// compiler compiles a schema to a network. A subnetwork stands for a conjunction of schemas, which covers $ref, allOf and
// keywords beside anyOf.
type compiler struct {
	b       *builder
	root    any
	rules   map[string]int32 // subnetworks by conjunction, with the choices made
	checked map[*object]bool
	texts   map[any]string // canonical texts of constants
	work    int
	proofs  int
}

// mostSchemas limits the number of conjunctions.
const mostSchemas = 20_000

func (b *builder) schema(text json.RawMessage) int32 {
	root, err := readSchema(text)
	if err != nil {
		b.fail(err)
		return 0
	}
	c := &compiler{b: b, root: root, rules: map[string]int32{}, checked: map[*object]bool{}, texts: map[any]string{}}
	return c.rule(c.all(nil, root, nil))
}

func (c *compiler) fail(at *location, format string, args ...any) {
	c.b.fail(badinput.Errorf("schema %s: %w", at, badinput.Errorf(format, args...)))
}

// conjunction is several schemas that apply together; never means that one is false.
type conjunction struct {
	of    []schema
	never bool
}

// all adds a schema, and those that it refers to, to a conjunction. through are the references that led to it, to detect cycles.
func (c *compiler) all(of []schema, v any, through []*object) conjunction {
	o, ok := v.(*object)
	if !ok {
		if v != true && v != false {
			c.b.fail(badinput.Errorf("schema: found %s where a schema is expected, an object or a boolean", automata.Truncate(c.canonical(nil, v))))
		}
		return conjunction{of, v != true}
	}
	if slices.Contains(through, o) {
		c.fail(o.at, "refers to itself without anything in between")
	}
	if c.work += 1 + len(of)/8; c.work > mostSchemas {
		c.fail(o.at, "needs more than %d combinations of schemas; nest anyOf, oneOf and allOf less", mostSchemas)
	}
	if c.b.err != nil {
		return conjunction{never: true}
	}
	if slices.ContainsFunc(of, func(s schema) bool { return s.object == o }) {
		return conjunction{of: of}
	}
	c.check(o)
	all := conjunction{of: append(slices.Clip(of), schema{object: o})}
	through = append(slices.Clip(through), o)
	if ref, ok := o.vals["$ref"]; ok {
		name, _ := ref.(string)
		target, ok := resolve(c.root, name)
		if !ok {
			c.fail(o.at, "$ref: found %q, expected a schema within this one, such as #/$defs/node", automata.Truncate(name))
		} else {
			all = c.and(all, target, through)
		}
	}
	for _, v := range c.list(o, "allOf") {
		all = c.and(all, v, through)
	}
	return all
}

func (c *compiler) and(have conjunction, v any, through []*object) conjunction {
	more := c.all(have.of, v, through)
	return conjunction{more.of, have.never || more.never}
}

// check refuses unknown keywords.
func (c *compiler) check(o *object) {
	if c.checked[o] {
		return
	}
	c.checked[o] = true
	for _, key := range o.keys {
		if _, ok := constraining[key]; !ok && !describing[key] && !strings.HasPrefix(key, "x-") {
			c.fail(o.at, "%q is not supported", automata.Truncate(key))
		}
	}
	for _, key := range []string{"uniqueItems", "nullable"} {
		if v, ok := o.vals[key]; ok && v != true && v != false {
			c.fail(o.at, "%s: expected true or false", key)
		}
	}
	if o.vals["uniqueItems"] == true {
		c.fail(o.at, "uniqueItems is not supported; leave it out, and check the answer")
	}
}

// rule is the subnetwork that reads a value which fits a conjunction.
func (c *compiler) rule(of conjunction) int32 {
	if c.b.err != nil {
		return 0
	}
	if of.never {
		return c.b.node()
	}
	var key []byte
	for _, s := range of.of {
		key = binary.LittleEndian.AppendUint32(key, uint32(s.id))
		key = append(key, s.chosen)
	}
	if n, ok := c.rules[string(key)]; ok {
		return n
	}
	n := c.b.node()
	c.rules[string(key)] = n
	if !c.choose(n, of.of) {
		c.value(n, of.of)
	}
	return n
}

// choices are the keywords of alternatives, in the order of their bits.
var choices = []string{"anyOf", "oneOf"}

// undecided is the first choice that is still open: the index of its schema, and the bit of the keyword.
func undecided(of []schema) (i, bit int, ok bool) {
	for i, s := range of {
		for bit, key := range choices {
			if _, ok := s.vals[key]; ok && s.chosen>>bit&1 == 0 {
				return i, bit, true
			}
		}
	}
	return 0, 0, false
}

// branches are the conjunctions that the alternatives of a choice lead to.
func (c *compiler) branches(of []schema, i, bit int) (all []conjunction) {
	chosen := slices.Clone(of)
	chosen[i].chosen |= 1 << bit
	for _, branch := range c.list(of[i].object, choices[bit]) {
		all = append(all, c.all(chosen, branch, nil))
		if c.b.err != nil {
			break
		}
	}
	return all
}

// choose adds the branches of the first open choice, if there is one.
func (c *compiler) choose(n int32, of []schema) bool {
	i, bit, ok := undecided(of)
	if !ok {
		return false
	}
	all := c.branches(of, i, bit)
	if choices[bit] == "oneOf" {
		c.exclusive(of[i].object, all)
	}
	for _, branch := range all {
		if c.b.err != nil {
			break
		}
		c.b.free(n, c.rule(branch))
	}
	return true
}

// list is the value of a keyword that must be a list of schemas that is not empty.
func (c *compiler) list(o *object, key string) []any {
	v, ok := o.vals[key]
	if !ok {
		return nil
	}
	list, _ := v.([]any)
	if len(list) == 0 {
		c.fail(o.at, "%s: expected a list of schemas", key)
	}
	return list
}

// count is the value of a keyword that must be a count, or a default.
func (c *compiler) count(o *object, key string, otherwise int) int {
	v, ok := o.vals[key]
	if !ok {
		return otherwise
	}
	number, _ := v.(json.Number)
	n, err := strconv.Atoi(strings.TrimSuffix(string(number), ".0"))
	if err != nil || n < 0 || n > 1<<30 {
		c.fail(o.at, "%s: expected an integer from 0 to %d", key, 1<<30)
	}
	return n
}

// types are the types that a value may have.
func (c *compiler) types(of []schema) types {
	every, said, about := everyType, false, types(0)
	for _, s := range of {
		if v, ok := s.vals["type"]; ok {
			every &= c.typesOf(s.object, v)
			said = true
		}
		for _, key := range s.keys {
			about |= constraining[key]
		}
		said = said || slices.Contains(s.keys, "enum") || slices.Contains(s.keys, "const")
	}
	if !said && about != 0 {
		return about
	}
	return every
}

func (c *compiler) typesOf(o *object, v any) (set types) {
	names, ok := v.([]any)
	if !ok {
		names = []any{v}
	}
	for _, v := range names {
		name, _ := v.(string)
		one, ok := typeNames[name]
		if !ok {
			c.fail(o.at, "type: found %q, expected null, boolean, integer, number, string, array or object", automata.Truncate(name))
		}
		set |= one
	}
	if o.vals["nullable"] == true {
		set |= nulls
	}
	return set
}

func itoa(n int) string          { return strconv.Itoa(n) }
func atoi(s string) (int, error) { return strconv.Atoi(s) }
func unescape(step string) string { // a step of a JSON pointer in a URI fragment
	if plain, err := url.PathUnescape(step); err == nil {
		return plain
	}
	return step
}
