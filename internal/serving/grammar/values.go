package grammar

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/grammar/automata"
)

// value adds any value that fits all the schemas, which have no open choices, from a node to another.
func (c *compiler) value(n int32, of []schema) {
	may := c.types(of)
	end := c.b.final()
	if constants, ok := c.constants(of); ok {
		c.constant(n, of, may, constants, end)
		return
	}
	var words []string
	if may&nulls != 0 {
		words = append(words, "null")
	}
	if may&booleans != 0 {
		words = append(words, "true", "false")
	}
	c.b.oneOf(n, words, end)
	if may&strs != 0 {
		if l, ok := c.stringLeaf(of); ok {
			c.b.call(n, c.b.leaf(l), end)
		}
	}
	if may&integers != 0 {
		if a := c.number(of, may); a != nil {
			c.b.call(n, c.b.leaf(leaf{auto: a, most: -1}), end)
		}
	}
	if may&arrays != 0 {
		c.array(n, of, end)
	}
	if may&objects != 0 {
		c.object(n, of, end)
	}
}

// stringLeaf is the leaf of a string that fits all the schemas; false if there is none.
func (c *compiler) stringLeaf(of []schema) (leaf, bool) {
	least, most, auto := 0, -1, automata.AnyText
	for _, s := range of {
		least = max(least, c.count(s.object, "minLength", 0))
		if n := c.count(s.object, "maxLength", -1); n >= 0 && (most < 0 || n < most) {
			most = n
		}
		for _, key := range []string{"pattern", "format"} {
			if v, ok := s.vals[key]; ok && auto != nil {
				auto = c.narrow(s.object, key, v, auto)
			}
		}
	}
	if auto == nil || most >= 0 && least > most || c.b.err != nil {
		return leaf{}, false
	}
	if auto == automata.AnyText {
		return leaf{auto: auto, quoted: true, least: int32(least), most: int32(most)}, true
	}
	if least > 0 || most >= 0 {
		lengths, err := automata.OfLength(&c.b.budget, least, most)
		if err == nil {
			auto, err = automata.Intersect(&c.b.budget, auto, lengths)
		}
		if err != nil {
			c.fail(of[0].at, "a string with a pattern or format and a length: %w", err)
		}
	}
	return leaf{auto: auto, quoted: true, most: -1}, auto != nil
}

// narrow intersects an automaton with a pattern or a format.
func (c *compiler) narrow(o *object, key string, v any, have *automata.Automaton) *automata.Automaton {
	text, ok := v.(string)
	if !ok {
		c.fail(o.at, "%s: expected a string", key)
		return nil
	}
	if known, ok := c.b.autos[key+text]; ok {
		return c.meet(o, have, known)
	}
	var a *automata.Automaton
	var err error
	if key == "pattern" {
		a, err = automata.Containing(&c.b.budget, text)
	} else if a, ok, err = automata.Format(&c.b.budget, text); !ok {
		err = badinput.Errorf("format: found %q, expected one of %s", automata.Truncate(text), strings.Join(automata.Formats(), ", "))
	}
	if err != nil {
		c.fail(o.at, "%w", err)
		return nil
	}
	c.b.autos[key+text] = a
	return c.meet(o, have, a)
}

func (c *compiler) meet(o *object, a, b *automata.Automaton) *automata.Automaton {
	met, err := automata.Intersect(&c.b.budget, a, b)
	if err != nil {
		c.fail(o.at, "patterns, formats and limits together: %w", err)
	}
	return met
}

// number is the automaton of the numbers that fit all the schemas; nil if there are none.
func (c *compiler) number(of []schema, may types) *automata.Automaton {
	n := automata.Numbers{Integers: may&fractions == 0, Fraction: automata.FractionDigits, Multiple: 1}
	for _, s := range of {
		for _, key := range []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"} {
			v, ok := s.vals[key]
			if !ok {
				continue
			}
			l := automata.Limit{Decimal: c.decimal(s.object, key, v), Strict: strings.HasPrefix(key, "e")}
			if strings.HasSuffix(strings.ToLower(key), "minimum") {
				n.Lo = append(n.Lo, l)
			} else {
				n.Hi = append(n.Hi, l)
			}
		}
		if v, ok := s.vals["multipleOf"]; ok {
			c.multiple(&n, s.object, v)
		}
	}
	if c.b.err != nil {
		return nil
	}
	id := numbersKey(n)
	if a, ok := c.b.autos[id]; ok {
		return a
	}
	a, err := n.Automaton(&c.b.budget)
	if err != nil {
		c.fail(of[0].at, "limits of a number and multipleOf together: %w", err)
	}
	c.b.autos[id] = a
	return a
}

// numbersKey is a cache key of numbers.
func numbersKey(n automata.Numbers) string {
	key := "number " + strconv.FormatBool(n.Integers) + " " + strconv.Itoa(n.Fraction) + " " + strconv.Itoa(n.Multiple)
	for i, side := range [][]automata.Limit{n.Lo, n.Hi} {
		for _, l := range side {
			key += " " + "<>"[i:i+1] + strconv.FormatBool(l.Strict) + l.Decimal.String()
		}
	}
	return key
}

func (c *compiler) decimal(o *object, key string, v any) automata.Decimal {
	number, ok := v.(json.Number)
	if !ok {
		c.fail(o.at, "%s: expected a number", key)
		return automata.Decimal{}
	}
	d, err := automata.NewDecimal(string(number))
	if err != nil {
		c.fail(o.at, "%s: %w", key, err)
	}
	return d
}

// multiple applies multipleOf, where digits decide it: an integer up to 1000, or a power of ten below one.
func (c *compiler) multiple(n *automata.Numbers, o *object, v any) {
	const most = 1000
	d := c.decimal(o, "multipleOf", v)
	zeros, isPower := strings.CutSuffix(d.Fraction, "1")
	m, err := strconv.Atoi(d.Whole)
	switch {
	case d.Negative || d.Zero():
		c.fail(o.at, "multipleOf: expected a number above 0")
	case d.Fraction == "" && err == nil && m <= most:
		n.Integers = true
		n.Multiple = n.Multiple / gcd(n.Multiple, m) * m
		if n.Multiple > most {
			c.fail(o.at, "multipleOf: several come to %d together, at most %d is supported", n.Multiple, most)
		}
	case d.Whole == "0" && isPower && strings.Trim(zeros, "0") == "":
		n.Fraction = min(n.Fraction, len(d.Fraction))
	default:
		c.fail(o.at, "multipleOf: found %s; integers up to %d are supported, and powers of ten like 0.01", d, most)
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// quote writes a string with as few escapes as JSON allows.
func quote(s string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // strings can always be encoded
	}
	text := strings.TrimSuffix(out.String(), "\n")
	return strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(text)
}
