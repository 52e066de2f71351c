package calls

import (
	"encoding/json"
	"slices"
)

// call parses an object such as {"name": "f", "arguments": {"x": 1}} incrementally: once the name is known, it hands out the
// arguments as they arrive.
type call struct {
	raw     []byte
	name    string
	argKeys []string // the keys under which models write the arguments

	inList           bool // a [ may precede the object
	bare             bool // the input is the arguments only, as the name was written before them
	object           int  // where the object starts in raw
	depth            int  // of nested objects and lists in the current value
	inString, escape bool // inside a string; after its backslash
	state            state
	key              string // of the current value
	start            int    // of the current key or value in raw
	argsFrom, argsTo int    // the arguments received so far are raw[argsFrom:argsTo]; argsTo is 0 before the first
	argsGiven        int    // how many bytes of them were handed out
	announceable     bool   // the call can be announced: it has a name, and arguments or its end
	announced        bool
	complete         bool // its last } was read
	broken           bool // it cannot be a call
}

type state int

const (
	beforeObject state = iota
	beforeKey
	inKey
	beforeColon
	beforeValue
	inValue
	afterValue
)

func newCall(argKeys ...string) *call { return &call{argKeys: argKeys} }

// push parses more text and returns how many bytes it consumed: all of them, or those up to the end of the object.
func (c *call) push(text string) (taken int) {
	for i := 0; i < len(text); i++ {
		if c.complete || c.broken {
			return i
		}
		c.raw = append(c.raw, text[i])
		if c.step(text[i]); c.bare && c.state == afterValue && !c.broken { // close the object that startBare opened
			c.raw = append(c.raw, '}')
			c.stepAfterValue('}')
		}
		c.announceable = c.announceable || !c.broken && c.name != "" && (c.argsTo > 0 || c.complete)
	}
	return len(text)
}

func blank(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// step parses one byte, which is already the last of raw.
func (c *call) step(b byte) {
	at := len(c.raw) - 1
	switch {
	case c.inString:
		c.stepInString(b, at)
	case c.state == inValue:
		c.stepInValue(b, at)
	case blank(b):
	case c.state == beforeObject && b == '[' && c.inList:
		c.inList = false
	case c.state == beforeObject && b == '{':
		c.state, c.object = beforeKey, at
	case c.state == beforeKey && b == '"':
		c.state, c.start, c.inString = inKey, at, true
	case c.state == beforeColon && b == ':':
		c.state = beforeValue
	case c.state == beforeValue:
		c.state, c.start = inValue, at
		if c.broken = c.key == "name" && c.name != "" || c.isArguments() && c.argsTo > 0; !c.broken { // a second name or second arguments
			c.stepInValue(b, at)
		}
	case c.state == afterValue:
		c.stepAfterValue(b)
	default:
		c.broken = true
	}
}

func (c *call) stepInString(b byte, at int) {
	switch {
	case c.escape:
		c.escape = false
	case b == '\\':
		c.escape = true
	case b == '"':
		c.inString = false
		if c.state == inKey {
			c.broken = json.Unmarshal(c.raw[c.start:at+1], &c.key) != nil
			c.state = beforeColon
		} else if c.depth == 0 {
			c.valueEnds(at + 1)
			return
		}
	}
	c.extendArguments(at + 1)
}

// stepInValue parses a byte of a value that is not in a string.
func (c *call) stepInValue(b byte, at int) {
	switch b {
	case '"':
		c.inString = true
	case '{', '[':
		c.depth++
	case '}', ']', ',':
		if c.depth == 0 { // it belongs to the object: the value was a number, true, false or null
			c.valueEnds(at)
			c.stepAfterValue(b)
			return
		}
		if b != ',' {
			if c.depth--; c.depth == 0 {
				c.valueEnds(at + 1)
				return
			}
		}
	}
	c.extendArguments(at + 1)
}

// stepAfterValue parses a byte after a value.
func (c *call) stepAfterValue(b byte) {
	switch b {
	case ',':
		c.state = beforeKey
	case '}':
		c.complete = true
		c.broken = c.name == "" || !json.Valid(c.raw[c.object:])
	default:
		c.broken = true
	}
}

func (c *call) isArguments() bool {
	return slices.Contains(c.argKeys, c.key)
}

// extendArguments extends the arguments to raw[:to], if the current value is an object of arguments.
func (c *call) extendArguments(to int) {
	if c.state == inValue && c.isArguments() && c.raw[c.start] == '{' {
		c.argsFrom, c.argsTo = c.start, to
	}
}

func (c *call) valueEnds(at int) {
	c.extendArguments(at)
	c.state = afterValue
	value := c.raw[c.start:at]
	switch {
	case len(value) == 0:
		c.broken = true
	case c.key == "name":
		c.broken = json.Unmarshal(value, &c.name) != nil || c.name == ""
	case c.isArguments() && value[0] != '{':
		c.unwrapArguments(value, at)
	}
}

// unwrapArguments accepts arguments that are not an object: a string that contains one as JSON, or null for no arguments.
func (c *call) unwrapArguments(value []byte, at int) {
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
	// Replace the string by the object in it.
	c.raw = slices.Concat(c.raw[:c.start], []byte(text), c.raw[at:])
	c.argsFrom, c.argsTo = c.start, c.start+len(text)
}

// newArguments returns the arguments received since its last result, and whether this is the first result.
func (c *call) newArguments() (arguments string, first bool) {
	if !c.announceable {
		return "", false
	}
	first, c.announced = !c.announced, true
	if c.argsTo == 0 && first {
		return "{}", true
	}
	arguments = string(c.raw[c.argsFrom+c.argsGiven : c.argsTo])
	c.argsGiven = c.argsTo - c.argsFrom
	return arguments, first
}
