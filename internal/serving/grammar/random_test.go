package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawn is a schema with documents that fit it.
type drawn struct {
	schema any
	sample func() string
}

type m = map[string]any

// schemaDrawer draws random schemas.
type schemaDrawer struct{ *rand.Rand }

func (d schemaDrawer) coin() bool { return d.IntN(2) == 0 }

// schema draws a schema of at most depth levels.
func (d schemaDrawer) schema(depth int) drawn {
	kinds := []func(int) drawn{d.text, d.integer, d.number, d.word, d.constant, d.length}
	if depth > 0 {
		kinds = append(kinds, d.object, d.object, d.array, d.choice, d.tuple, d.all, d.dictionary)
	}
	return kinds[d.IntN(len(kinds))](depth - 1)
}

func (d schemaDrawer) text(int) drawn {
	all := []struct{ pattern, a, b string }{
		{`^[a-f]{2,4}$`, "ab", "fade"}, {`x\d+`, "x1", "ax22b\n"}, {`^(foo|bar)?$`, "", "foo"}, {`^\S+ \S+$`, "a b", "é 日"},
	}
	one := all[d.IntN(len(all))]
	return drawn{m{"type": "string", "pattern": one.pattern}, func() string { return d.quote([]string{one.a, one.b}[d.IntN(2)]) }}
}

func (d schemaDrawer) length(int) drawn {
	least := d.IntN(4)
	most := least + d.IntN(40)
	return drawn{m{"type": "string", "minLength": least, "maxLength": most}, func() string {
		text := make([]rune, least+d.IntN(most-least+1))
		for i := range text {
			text[i] = []rune("ab\"\\\n/é日😀\u2028\x7f<")[d.IntN(12)]
		}
		return d.quote(string(text))
	}}
}

// quote encodes a string in one of several valid ways.
func (d schemaDrawer) quote(s string) string {
	if d.coin() {
		return quote(s)
	}
	text, _ := json.Marshal(s)
	if d.coin() {
		return string(text)
	}
	return strconv.QuoteToASCII(strings.Map(func(r rune) rune { // only characters that JSON escapes in the same way
		if r < 0x20 || r == 0x7f || r > 0xFFFF {
			return 'z'
		}
		return r
	}, s))
}

func (d schemaDrawer) integer(int) drawn {
	lo := d.Int64N(3000) - 1500
	hi := lo + d.Int64N(2000)
	return drawn{m{"type": "integer", "minimum": lo, "maximum": hi}, func() string { return strconv.FormatInt(lo+d.Int64N(hi-lo+1), 10) }}
}

func (d schemaDrawer) number(int) drawn {
	lo := float64(d.IntN(2000)-1000) / 64
	hi := lo + float64(1+d.IntN(2000))/128
	return drawn{m{"type": "number", "minimum": lo, "exclusiveMaximum": hi}, func() string {
		return strconv.FormatFloat(lo+d.Float64()*(hi-lo)*0.999, 'f', -1, 64)
	}}
}

func (d schemaDrawer) word(int) drawn {
	of := []string{"null", "boolean", "number", "string", "integer"}
	samples := map[string][]string{
		"null": {"null"}, "boolean": {"true", "false"}, "number": {"1e-7", "-0.5", "12"}, "string": {`""`, `"a\u00e9"`}, "integer": {"0", "-77"},
	}
	some := []any{of[d.IntN(5)], of[d.IntN(5)]}
	return drawn{m{"type": some}, func() string {
		list := samples[some[d.IntN(2)].(string)]
		return list[d.IntN(len(list))]
	}}
}

func (d schemaDrawer) constant(int) drawn {
	values := []string{`"a"`, `"ab"`, `1`, `-2.5`, `null`, `"x y"`, `{"k":[1,"é"]}`, `[]`}
	d.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	values = values[:1+d.IntN(4)]
	list := []any{}
	for _, v := range values {
		list = append(list, json.RawMessage(v))
	}
	return drawn{m{"enum": list}, func() string { return values[d.IntN(len(values))] }}
}

// list joins parts with random allowed white space.
func (d schemaDrawer) list(open string, parts []string, close string) string {
	if len(parts) == 0 {
		return open + close
	}
	space := []string{"", " ", "\n", "\n  ", "\n\t"}[d.IntN(5)]
	return open + space + strings.Join(parts, ","+space) + space + close
}

func (d schemaDrawer) object(depth int) drawn {
	names := []string{"a", "ab", "b\"q", "c", "d", "é"}[:d.IntN(7)]
	properties, required, of := m{}, []any{}, map[string]drawn{}
	must := map[string]bool{}
	for _, name := range names {
		of[name] = d.schema(depth)
		properties[name] = of[name].schema
		if must[name] = d.coin(); must[name] {
			required = append(required, name)
		}
	}
	return drawn{m{"type": "object", "properties": properties, "required": required, "additionalProperties": false}, func() string {
		var parts []string
		for _, name := range names {
			if must[name] || d.coin() {
				parts = append(parts, quote(name)+":"+[]string{"", " "}[d.IntN(2)]+of[name].sample())
			}
		}
		return d.list("{", parts, "}")
	}}
}

func (d schemaDrawer) dictionary(depth int) drawn {
	of := d.schema(depth)
	return drawn{m{"type": "object", "additionalProperties": of.schema}, func() string {
		var parts []string
		for i := range d.IntN(3) {
			parts = append(parts, d.quote(fmt.Sprint("key é", i))+":"+of.sample())
		}
		return d.list("{", parts, "}")
	}}
}

func (d schemaDrawer) array(depth int) drawn {
	of, least := d.schema(depth), d.IntN(3)
	most := least + d.IntN(3)
	return drawn{m{"type": "array", "items": of.schema, "minItems": least, "maxItems": most}, func() string {
		var parts []string
		for range least + d.IntN(most-least+1) {
			parts = append(parts, of.sample())
		}
		return d.list("[", parts, "]")
	}}
}

func (d schemaDrawer) tuple(depth int) drawn {
	a, b, rest := d.schema(depth), d.schema(depth), d.schema(depth)
	return drawn{m{"type": "array", "prefixItems": []any{a.schema, b.schema}, "items": rest.schema}, func() string {
		var parts []string
		for i := range d.IntN(5) {
			parts = append(parts, []drawn{a, b, rest}[min(i, 2)].sample())
		}
		return d.list("[", parts, "]")
	}}
}

func (d schemaDrawer) choice(depth int) drawn {
	a, b := d.schema(depth), d.schema(depth)
	key := "anyOf"
	if d.coin() {
		key, a, b = "oneOf", d.tagged("a", a), d.tagged("b", b)
	}
	return drawn{m{key: []any{a.schema, b.schema}}, func() string {
		return []drawn{a, b}[d.IntN(2)].sample()
	}}
}

// tagged is an object with a member that names its variant.
func (d schemaDrawer) tagged(tag string, of drawn) drawn {
	s := m{"properties": m{"a tag": m{"const": tag}, "of": of.schema}, "required": []any{"a tag", "of"}}
	return drawn{s, func() string { return d.list("{", []string{`"a tag":"` + tag + `"`, `"of":` + of.sample()}, "}") }}
}

func (d schemaDrawer) all(depth int) drawn {
	of := d.schema(depth)
	return drawn{m{"allOf": []any{of.schema, true, m{"description": "x"}}}, of.sample}
}

// recursive is a schema that refers to itself and to another.
func (d schemaDrawer) recursive(depth int) drawn {
	leaf := d.schema(depth)
	var sample func(levels int) string
	sample = func(levels int) string {
		if levels == 0 || d.coin() {
			return leaf.sample()
		}
		return d.list("[", []string{sample(levels - 1), sample(levels - 1)}, "]")
	}
	tree := m{"anyOf": []any{m{"$ref": "#/$defs/leaf"}, m{"type": "array", "items": m{"$ref": "#"}}}}
	tree["$defs"] = m{"leaf": leaf.schema}
	return drawn{tree, func() string { return sample(4) }}
}

// tries is the number of schemas to draw: GRPO_TEXTS, or a few.
func tries(t *testing.T) uint64 {
	t.Helper()
	if n, err := strconv.ParseUint(os.Getenv("GRPO_TEXTS"), 10, 64); err == nil {
		return n / 100
	}
	return 60
}

// Documents drawn under the masks are JSON and fit the schema, no state is a dead end, and a document that fits is accepted in every
// tokenization.
func TestDrawnSchemas(t *testing.T) {
	v := fixture(t)
	for seed := range tries(t) {
		d := schemaDrawer{random(seed)}
		s := d.schema(3)
		if seed%4 == 0 {
			s = d.recursive(2)
		}
		text, err := json.Marshal(s.schema)
		require.NoError(t, err)
		g := compiled(t, v, string(text))
		root, err := parse(string(text))
		require.NoError(t, err)
		for range 3 {
			document := s.sample()
			value, err := parse(document)
			require.NoError(t, err, document)
			require.NoError(t, validator{root}.check(root, value), "the test's own: %s %s", text, document)
			ok, at := accepts(g, document, d.Rand)
			require.True(t, ok, "%s\ndoes not take %q\nat %s", text, document, at)

			document = walk(t, g, d.Rand, d.IntN(60))
			value, err = parse(document)
			require.NoError(t, err, "%s\ndrew %q", text, document)
			require.NoError(t, validator{root}.check(root, value), "%s\ndrew %q", text, document)
			ok, at = accepts(g, document, d.Rand)
			require.True(t, ok, "%s\ndrew %q, in other tokens refused at %s", text, document, at)
		}
	}
}

// The formats accept what the standard library parses.
func TestFormats(t *testing.T) {
	v := fixture(t)
	rng := random(3)
	for _, format := range []string{"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"} {
		g := compiled(t, v, `{"type":"string","format":"`+format+`"}`)
		for range tries(t) / 10 {
			document := walk(t, g, rng, rng.IntN(30))
			value, err := parse(document)
			require.NoError(t, err)
			require.NoError(t, checkFormat(format, value.(string)), document)
		}
	}
}
