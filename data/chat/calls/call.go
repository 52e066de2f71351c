package calls

import (
	"encoding/json"
	"slices"
)

// call reads an object such as {"name": "f", "arguments": {"x": 1}} while it is being written: arguments are given out as
// they come, once it is known what is called.
type call struct {
	raw     []byte
	name    string
	argKeys []string // what the arguments are called

	inList       bool // a bracket may stand before it
	bare         bool // what comes is the arguments alone
	object       int  // where it begins
	depth        int
	text, escape bool   // in a string
	at           spot   // in the object
	key          string // the value is its
	start        int    // of the key or the value
	from, to     int    // arguments, as far as they came; to is 0 until there are some
	given        int    // of them
	due          bool   // enough is known to tell of the call
	announced    bool
	over         bool // the object is complete
	broken       bool // it cannot be a call
}

type spot int

const (
	beforeObject spot = iota
	beforeKey
	inKey
	beforeColon
	beforeValue
	inValue
	afterValue
)

func newCall(argKeys ...string) *call { return &call{argKeys: argKeys} }

// push reads on and returns how many bytes it took: all, or those up to the object's end.
func (c *call) push(text string) (taken int) {
	for i := 0; i < len(text); i++ {
		if c.over || c.broken {
			return i
		}
		c.raw = append(c.raw, text[i])
		if c.step(text[i]); c.bare && c.at == afterValue && !c.broken { // the object that they stand in ends with them
			c.raw = append(c.raw, '}')
			c.after('}')
		}
		c.due = c.due || !c.broken && c.name != "" && (c.to > 0 || c.over)
	}
	return len(text)
}

func blank(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// step takes a byte, the last of raw.
func (c *call) step(b byte) {
	at := len(c.raw) - 1
	switch {
	case c.text:
		c.inString(b, at)
	case c.at == inValue:
		c.inside(b, at)
	case blank(b):
	case c.at == beforeObject && b == '[' && c.inList:
		c.inList = false
	case c.at == beforeObject && b == '{':
		c.at, c.object = beforeKey, at
	case c.at == beforeKey && b == '"':
		c.at, c.start, c.text = inKey, at, true
	case c.at == beforeColon && b == ':':
		c.at = beforeValue
	case c.at == beforeValue:
		c.at, c.start = inValue, at
		if c.broken = c.key == "name" && c.name != "" || c.isArguments() && c.to > 0; !c.broken { // twice
			c.inside(b, at)
		}
	case c.at == afterValue:
		c.after(b)
	default:
		c.broken = true
	}
}

func (c *call) inString(b byte, at int) {
	switch {
	case c.escape:
		c.escape = false
	case b == '\\':
		c.escape = true
	case b == '"':
		c.text = false
		if c.at == inKey {
			c.broken = json.Unmarshal(c.raw[c.start:at+1], &c.key) != nil
			c.at = beforeColon
		} else if c.depth == 0 {
			c.valueEnds(at + 1)
			return
		}
	}
	c.grow(at + 1)
}

// inside reads a value outside of its strings.
func (c *call) inside(b byte, at int) {
	switch b {
	case '"':
		c.text = true
	case '{', '[':
		c.depth++
	case '}', ']', ',':
		if c.depth == 0 { // of the object: a number or a word ended before it
			c.valueEnds(at)
			c.after(b)
			return
		}
		if b != ',' {
			if c.depth--; c.depth == 0 {
				c.valueEnds(at + 1)
				return
			}
		}
	}
	c.grow(at + 1)
}

// after reads what follows a value.
func (c *call) after(b byte) {
	switch b {
	case ',':
		c.at = beforeKey
	case '}':
		c.over = true
		c.broken = c.name == "" || !json.Valid(c.raw[c.object:])
	default:
		c.broken = true
	}
}

func (c *call) isArguments() bool {
	return slices.Contains(c.argKeys, c.key)
}

// grow tells that a value came as far as that.
func (c *call) grow(to int) {
	if c.at == inValue && c.isArguments() && c.raw[c.start] == '{' {
		c.from, c.to = c.start, to
	}
}

func (c *call) valueEnds(at int) {
	c.grow(at)
	c.at = afterValue
	value := c.raw[c.start:at]
	switch {
	case len(value) == 0:
		c.broken = true
	case c.key == "name":
		c.broken = json.Unmarshal(value, &c.name) != nil || c.name == ""
	case c.isArguments() && value[0] != '{':
		c.odd(value, at)
	}
}

// odd are arguments that are no object: a string that holds one, or null for none.
func (c *call) odd(value []byte, at int) {
	var text string
	if json.Unmarshal(value, &text) != nil {
		c.broken = true
		return
	}
	if text == "" {
		text = "{}"
	}
	if text[0] != '{' || !json.Valid([]byte(text)) {
		c.broken = true
		return
	}
	// The object stands in place of the string that holds it.
	c.raw = slices.Concat(c.raw[:c.start], []byte(text), c.raw[at:])
	c.from, c.to = c.start, c.start+len(text)
}

// more gives what came of the arguments since the last time, and whether it is the first.
func (c *call) more() (arguments string, first bool) {
	if !c.due {
		return "", false
	}
	first, c.announced = !c.announced, true
	if c.to == 0 && first {
		return "{}", true
	}
	arguments = string(c.raw[c.from+c.given : c.to])
	c.given = c.to - c.from
	return arguments, first
}
