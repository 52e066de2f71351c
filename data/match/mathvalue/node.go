package mathvalue

import "slices"

// node is a part of an expression.
type node struct {
	kind kind
	text string  // of a number, the name of a variable or function, the brackets of a collection
	args []*node // operands, arguments, elements
	name string  // the variable that has this value, if there are several: x = 1, y = 2

	values [places + farPlaces]*valueOrNone // at each place; nil: not evaluated yet
	alike  map[*node]bool                   // the results of comparisons with other nodes
	parts  *parts
}

// parts says what an expression contains. It is cached in each node, because nodes are shared: both values of 1 ± 2 contain the same 1.
type parts struct{ steps, variables bool }

// has returns what an expression contains.
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

// valueOrNone is the result of an evaluation; not ok: the expression has no value.
type valueOrNone struct {
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
	sum     // of two args
	product // of two args
	quotient
	power
	negative
	call       // of the function named text, or an operator between two operands that are compared in order
	factorial  // of one
	percentage // of one
	collection // text is a pair of brackets: ⦃⦄, (), [], (], [), or "" for a list without any
	union      // of collections
	matrix     // args are rows, which are collections
	plusMinus  // ±: args are the two values
)

// depth bounds how deep an expression may be nested.
const depth = 64
