package mathvalue

import "slices"

// node is a part of an expression.
type node struct {
	kind kind
	text string  // of a number, the name of a variable or function, the brackets of a collection
	args []*node // operands, arguments, elements
	name string  // of what it is the value, where that counts: in x = 1, y = 2

	values [places + farPlaces]*worth // at places, as far as they are worked out
	alike  map[*node]bool             // what it was found to be equal to, and what not
	parts  *parts
}

// parts are what an expression has in it. Both signs of ± share what is before them, so that each node is looked at once.
type parts struct{ steps, variables bool }

// has tells of what is in an expression.
func (n *node) has() parts {
	if n.parts == nil {
		n.parts = &parts{
			steps:     n.kind == call && slices.Contains([]string{"abs", "floor", "ceil", "min", "max"}, n.text),
			variables: n.kind == variable,
		}
		for _, a := range n.args {
			of := a.has()
			n.parts.steps, n.parts.variables = n.parts.steps || of.steps, n.parts.variables || of.variables
		}
	}
	return *n.parts
}

// worth is a value, or that there is none.
type worth struct {
	value
	ok bool
}

// expression is one reading of an answer.
type expression struct{ root *node }

type kind int

const (
	number   kind = iota // text is its decimal form
	variable             // text is its name
	infinity
	sum     // of two
	product // of two
	quotient
	power
	negative
	call       // of the function text
	factorial  // of one
	percentage // of one
	collection // text is a pair of brackets: ⦃⦄, (), [], (], [), or "" for what is listed without
	union      // of collections
	matrix     // args are rows, which are collections
	either     // ±: args are both
)

// depth bounds how deep an expression may be nested.
const depth = 64
